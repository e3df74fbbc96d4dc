#include "fuzz/layout_texts.h"

#include <array>
#include <random>
#include <string_view>

namespace lowtide::testing {
namespace {

constexpr std::array<std::string_view, 28> kTellingCells{
    "", "0", "1", "-1", "2", "3", "7", "8", "16", "64", "1000", " 5 ", "5.0", "1e3", "0x10", "+1",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "1125899906842624",
    "1125899906842625", "9223372036854775807", "9223372036854775808", "x", "\"", "id", "offset"};

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed) {}

  std::string table() {
    std::string text = pick(valid_tables());
    for (int i = below(6); i > 0; --i) change(text);
    return text;
  }

  std::string bytes() {
    std::string text;
    for (int i = 2 + 5 * below(13); i > 0; --i) text += static_cast<char>(random_());
    return text;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  template <typename List>
  const typename List::value_type& pick(const List& list) {
    return list[random_() % list.size()];
  }
  std::size_t place(const std::string& text) { return random_() % (text.size() + 1); }

  /// Begin and length of the piece between two separators (or the end) that contains `place`.
  static std::pair<std::size_t, std::size_t> piece(const std::string& text, std::size_t place,
                                                   std::string_view separators) {
    const std::size_t before =
        place == 0 ? text.npos : text.find_last_of(separators, place - 1);
    const std::size_t begin = before == text.npos ? 0 : before + 1;
    return {begin, std::min(text.find_first_of(separators, begin), text.size()) - begin};
  }

  void change(std::string& text) {
    const auto [cell, cell_length] = piece(text, place(text), ",\n");
    const auto [line, line_length] = piece(text, place(text), "\n");
    switch (below(8)) {
      case 0: text.replace(cell, cell_length, pick(kTellingCells)); break;
      case 1: text.replace(cell, cell_length, std::to_string(below(40))); break;
      case 2: text.erase(cell, cell_length); break;
      case 3: text.insert(cell, text.substr(cell, cell_length) + ","); break;
      case 4: text.erase(line, line_length); break;
      case 5: text.insert(line, text.substr(line, line_length) + (below(4) == 0 ? "\r\n" : "\n"));
        break;
      case 6: text.insert(place(text), 1, static_cast<char>(random_())); break;
      default: text.insert(text.size(), "\n" + std::to_string(below(9)) + ",0,3,4,8"); break;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

const std::vector<std::string>& valid_tables() {
  static const std::vector<std::string> tables{
      "id,lower,upper,size\na,0,2,10\nb,0,4,10\nc,0,2,10\nd,2,4,20\n",
      "buffer,start,end,size\n0,1,3,8\n1,-4,2,5\n",
      "size,upper,buffer_id,begin\r\n12,5,b1,-2\r\n\r\n3,9,b2,5\r\n",
      "id,lower,upper,size,alignment,offset\n0,0,3,8,16,32\n1,0,1,8,1,\n2,0,9,8,4,-1\n3,2,5,7,1,\n",
      "id,lower,upper,size,offset\nx,0,4,10,0\ny,2,6,5,10\nz,1,3,7,\n",
      "id,lower,upper,size,same,group\na,0,2,10,x,\nb,1,4,10,x,\nc,0,3,7,,g\nd,2,5,9,,g\n",
      "id,lower,upper,size\na,0,2,10\nb,-2147483648,4,10\nc,0,3,7\nd,2,2147483647,9\ne,2,5,9\n",
      "id,lower,upper,size\n"};
  return tables;
}

std::string layout_text(std::uint64_t seed) {
  Writer writer(seed);
  return seed % 2 == 0 ? writer.table() : writer.bytes();
}

}  // namespace lowtide::testing
