#include "cli/version.h"

namespace quire::cli {

std::string_view version() {
  return QUIRE_VERSION;
}

}  // namespace quire::cli
