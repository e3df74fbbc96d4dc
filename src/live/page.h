#pragma once

/// The files of the page, which the Python package has as well: python/lowtide/live_page.
namespace lowtide::live {

extern const char* const kPageHtml;
extern const char* const kPageCss;
extern const char* const kPageScript;

}  // namespace lowtide::live
