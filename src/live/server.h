#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace lowtide::live {

/// Serves one page to browsers of this machine, from a thread of its own, until it ends.
///
/// What listens on a machine may be reached by any page that a browser on it shows, and by any user
/// of it. So it listens on 127.0.0.1; the address has a part that nobody can guess; a request must
/// name this machine as its host, which one does not that came by a name whose address was changed;
/// nothing is served but four fixed paths; and nothing that is sent changes anything
/// (docs/decisions/51-a-live-page-is-asked-for-and-has-a-secret.md).
class Server {
 public:
  /// `port`: 0 for a free one. `state`: gives what the page shows, as a JSON document; the server's
  /// thread calls it. Throws InputError for a port on which nothing can listen.
  Server(std::uint16_t port, std::function<std::string()> state);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// "http://127.0.0.1:40123/.../"
  std::string url() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::live
