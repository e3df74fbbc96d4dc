#include "base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"

extern char** environ;

namespace lowtide {
namespace {

constexpr int kNotStarted = 127;
constexpr int kPollMilliseconds = 50;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void fail(const std::string& command) {
  throw InputError(fmt::format("cannot run {}: {}", command, std::strerror(errno)));
}

/// A file without a name, deleted after its last use, so that a large input cannot block.
File temporary(const std::string& command, const std::string& content) {
  File file(std::tmpfile());
  if (!file) fail(command);
  if (std::fwrite(content.data(), 1, content.size(), file.get()) != content.size()) fail(command);
  std::rewind(file.get());
  return file;
}

class Child {
 public:
  Child(const std::vector<std::string>& command, const std::string& input)
      : input_(temporary(command.front(), input)), errors_(temporary(command.front(), "")) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail(command.front());
    output_ = ends[0];
    start(command, ends[1]);
    close(ends[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Kills and awaits the child after an exception in on_line too.
  ~Child() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    close(output_);
  }

  /// Returns whether it was killed.
  bool read_lines(const std::function<void(const std::string&)>& on_line,
                  const std::function<bool()>& should_stop) {
    std::string text;
    while (true) {
      if (should_stop()) {
        if (process_ > 0) kill(process_, SIGKILL);
        return true;
      }
      if (!read_some(text)) return false;
      for (std::size_t end; (end = text.find('\n')) != std::string::npos;) {
        const std::string line = text.substr(0, end);
        text.erase(0, end + 1);
        on_line(line);
      }
    }
  }

  int wait() {
    if (process_ <= 0) return kNotStarted;
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string errors() const {
    if (process_ < 0) return std::strerror(start_error_);
    std::string text;
    std::rewind(errors_.get());
    for (int c; (c = std::fgetc(errors_.get())) != EOF;) text += static_cast<char>(c);
    return text;
  }

 private:
  /// Starts the child in its own process group, which the terminal's signals do not reach.
  void start(const std::vector<std::string>& command, int output) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, fileno(input_.get()), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, fileno(errors_.get()), STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    start_error_ =
        posix_spawnp(&process_, arguments.front(), &files, &attributes, arguments.data(), environ);
    if (start_error_ != 0) process_ = -1;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
  }

  /// Appends the output of a short interval; false at the end of the output.
  bool read_some(std::string& text) const {
    pollfd waiting{output_, POLLIN, 0};
    if (poll(&waiting, 1, kPollMilliseconds) <= 0) return true;
    char buffer[1 << 16];
    const ssize_t got = read(output_, buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && errno == EINTR);
  }

  File input_;
  File errors_;
  int output_ = -1;
  pid_t process_ = -1;
  int start_error_ = 0;
};

}  // namespace

ChildResult run_child(const std::vector<std::string>& command, const std::string& input,
                      const std::function<void(const std::string&)>& on_line,
                      const std::function<bool()>& should_stop) {
  Child child(command, input);
  ChildResult result;
  result.killed = child.read_lines(on_line, should_stop);
  result.exit_code = child.wait();
  result.errors = child.errors();
  return result;
}

}  // namespace lowtide
