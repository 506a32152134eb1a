#include "python/gil.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#endif

namespace {

std::atomic<bool> ended{false};
// The thread in which the interpreter has begun to end.
std::atomic<std::thread::id> ending_thread{};
std::terminate_handler earlier_handler = nullptr;

// Where there is no exception, pthread_exit has met a noexcept function. Other libraries have such functions, too: numpy.unique of
// integers is one, which training calls by way of scikit-learn.
[[noreturn]] void sleep_or_abort() {
    const std::thread::id ending = ending_thread.load();
    if (ending != std::thread::id() && ending != std::this_thread::get_id() && !std::current_exception()) sleep_until_exit();
    if (earlier_handler) earlier_handler();
    std::abort();
}

}  // namespace

// The interpreter calls it last, when its lock is about to go. Until then it stops threads by itself.
void watch_interpreter_exit() {
    Py_AtExit([] { ended.store(true); });
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { ending_thread.store(std::this_thread::get_id()); }));
    earlier_handler = std::set_terminate(sleep_or_abort);
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
