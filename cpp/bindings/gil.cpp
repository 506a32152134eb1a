#include "bindings/gil.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#endif

namespace {

std::atomic<bool> ended{false};

}  // namespace

// The interpreter calls it last, when its lock is about to go. Until then it stops threads by itself.
void watch_interpreter_exit() {
    Py_AtExit([] { ended.store(true); });
}

bool interpreter_has_ended() noexcept { return ended.load(std::memory_order_relaxed); }

void sleep_until_exit() noexcept {
#if defined(__unix__) || defined(__APPLE__)
    // Signals are for threads that can still handle them.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
#endif
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}
