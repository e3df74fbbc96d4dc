"""Names of programs that are looked for. It imports nothing of the package, so that what installs
them reads it before anything is built."""

#: A browser without a window: any of these, the first one first. Debian has a package of its name.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
