#include "live/server.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"
#include "live/page.h"

namespace lowtide::live {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

constexpr const char* kAddress = "127.0.0.1";
/// That a client may take.
constexpr std::chrono::seconds kClientTime{10};
constexpr std::chrono::milliseconds kPause{100};
constexpr std::uint32_t kMostHeaderBytes = 16 << 10;

constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri "
     "'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-store"}};

std::string random_text() {
  std::random_device random;
  std::string text;
  for (int word = 0; word < 4; ++word) text += fmt::format("{:08x}", random());
  return text;
}

/// In a time that does not tell where they differ.
bool are_equal(std::string_view given, std::string_view secret) {
  if (given.size() != secret.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i]);
  }
  return difference == 0;
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

/// Programs that this one starts do not keep the port open.
void close_in_programs(int socket) { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

/// What is served, to whom.
struct Site {
  std::string secret;
  std::uint16_t port = 0;
  std::function<std::string()> state;

  Response answer(const Request& request) const;

 private:
  bool is_for_this_machine(const Request& request) const;
  std::optional<std::string_view> path_of(const Request& request) const;
};

Response made(http::status status, const char* kind, std::string content) {
  Response response{status, 11};
  response.set(http::field::server, "lowtide");
  response.set(http::field::content_type, kind);
  for (const auto& [name, value] : kHeaders) response.set(name, value);
  response.keep_alive(false);
  response.body() = std::move(content);
  response.prepare_payload();
  return response;
}

bool Site::is_for_this_machine(const Request& request) const {
  if (request.count(http::field::host) != 1) return false;
  const std::string_view host = view(request[http::field::host]);
  return host == fmt::format("{}:{}", kAddress, port) || host == fmt::format("localhost:{}", port);
}

/// Behind the secret part; none without it.
std::optional<std::string_view> Site::path_of(const Request& request) const {
  std::string_view target = view(request.target());
  if (!target.starts_with('/')) return std::nullopt;
  target.remove_prefix(1);
  const std::size_t slash = target.find('/');
  if (slash == std::string_view::npos || !are_equal(target.substr(0, slash), secret)) {
    return std::nullopt;
  }
  return target.substr(slash + 1);
}

Response Site::answer(const Request& request) const {
  constexpr const char* kText = "text/plain";
  if (request.method() != http::verb::get) {
    return made(http::status::method_not_allowed, kText, "Only GET.\n");
  }
  if (!is_for_this_machine(request)) {
    return made(http::status::forbidden, kText, "This page is for the machine that it runs on.\n");
  }
  const auto path = path_of(request);
  if (path == "") return made(http::status::ok, "text/html; charset=utf-8", kPageHtml);
  if (path == "live.css") return made(http::status::ok, "text/css; charset=utf-8", kPageCss);
  if (path == "live.js") {
    return made(http::status::ok, "text/javascript; charset=utf-8", kPageScript);
  }
  if (path == "state") return made(http::status::ok, "application/json", state());
  return made(http::status::not_found, kText, "There is nothing here.\n");
}

/// One request and its answer. Lives as long as one of the two is under way.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, const Site& site) : stream_(std::move(socket)), site_(site) {
    close_in_programs(stream_.socket().native_handle());
    parser_.header_limit(kMostHeaderBytes);
  }

  void start() {
    stream_.expires_after(kClientTime);
    http::async_read_header(
        stream_, buffer_, parser_,
        [self = shared_from_this()](error_code failed, std::size_t) { self->reply(failed); });
  }

 private:
  void reply(error_code failed) {
    if (failed) return;  // a client that goes away is no news for the user of a training
    response_ = site_.answer(parser_.get());
    http::async_write(stream_, response_, [self = shared_from_this()](error_code, std::size_t) {
      error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }

  beast::tcp_stream stream_;
  const Site& site_;
  beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> parser_;
  Response response_;
};

}  // namespace

struct Server::Impl {
  Impl(std::uint16_t port, std::function<std::string()> state) : acceptor(io), pause(io) {
    const tcp::endpoint endpoint(asio::ip::make_address(kAddress), port);
    try {
      acceptor.open(endpoint.protocol());
      close_in_programs(acceptor.native_handle());
      // For a port of an earlier page, whose connections the system still remembers. One on which
      // something listens is refused in any case.
      acceptor.set_option(tcp::acceptor::reuse_address(true));
      acceptor.bind(endpoint);
      acceptor.listen();
    } catch (const boost::system::system_error& error) {
      throw InputError(fmt::format("nothing can listen on port {} of {}: {}. Give another port, or "
                                   "0 for a free one.",
                                   port, kAddress, error.code().message()));
    }
    site = {random_text(), acceptor.local_endpoint().port(), std::move(state)};
    accept();
    thread = std::thread([this] { io.run(); });
  }

  ~Impl() {
    io.stop();
    thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void accept() {
    acceptor.async_accept([this](error_code failed, tcp::socket socket) {
      if (failed) return accept_later();
      std::make_shared<Session>(std::move(socket), site)->start();
      accept();
    });
  }

  /// A process that has no descriptor left has one again some time.
  void accept_later() {
    pause.expires_after(kPause);
    pause.async_wait([this](error_code) { accept(); });
  }

  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  Site site;
  std::thread thread;
};

Server::Server(std::uint16_t port, std::function<std::string()> state)
    : impl_(std::make_unique<Impl>(port, std::move(state))) {}

Server::~Server() = default;

std::string Server::url() const {
  return fmt::format("http://{}:{}/{}/", kAddress, impl_->site.port, impl_->site.secret);
}

}  // namespace lowtide::live
