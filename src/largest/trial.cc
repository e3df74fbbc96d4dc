#include "largest/trial.h"

namespace lowtide::largest {

std::string_view name(Evidence evidence) {
  switch (evidence) {
    case Evidence::bound: return "bound";
    case Evidence::estimated: return "estimated";
    case Evidence::measured: return "measured";
    case Evidence::run: return "run";
  }
  return "";
}

}  // namespace lowtide::largest
