#include "numeric/clones.hpp"

#include <cstdlib>
#include <cstring>

namespace maxmargin {

namespace {

bool find_avx2() {
#if defined(__x86_64__) && defined(__GNUC__)
    const char* const capability = std::getenv("MAXMARGIN_CPU_CAPABILITY");
    return __builtin_cpu_supports("avx2") && !(capability && std::strcmp(capability, "default") == 0);
#else
    return false;
#endif
}

}  // namespace

const bool kUsesAvx2 = find_avx2();

}  // namespace maxmargin
