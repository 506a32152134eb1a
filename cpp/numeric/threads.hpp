// Work shared out among threads, which wait for the next call once they have been started.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>

namespace maxmargin {

// Calls work(context) here, and meanwhile on as many as `helpers` other threads, if they come before the call here is over. Who
// comes later finds nothing to do and is not waited for: a machine that is busy with something else costs no time.
void run_with_help(std::size_t helpers, void (*work)(void*), void* context);

// task(0) .. task(count - 1), shared out among threads, no more than the machine has cores; the first exception is thrown on.
// Tasks may share out work of their own.
template <class Task>
void share_out(int n_threads, std::size_t count, const Task& task) {
    if (n_threads <= 1 || count <= 1) {
        for (std::size_t k = 0; k < count; ++k) task(k);
        return;
    }
    struct Shared {
        const Task& task;
        const std::size_t count;
        std::exception_ptr failure;
        std::atomic<bool> failed{false};
        // Away from what is only read.
        alignas(64) std::atomic<std::size_t> next{0};
        Shared(const Task& given, std::size_t size) : task(given), count(size) {}
    } shared(task, count);
    const auto work = [](void* context) {
        Shared& all = *static_cast<Shared*>(context);
        for (std::size_t k; !all.failed && (k = all.next.fetch_add(1)) < all.count;) {
            try {
                all.task(k);
            } catch (...) {
                if (!all.failed.exchange(true)) all.failure = std::current_exception();
            }
        }
    };
    const auto threads = static_cast<std::size_t>(n_threads);
    run_with_help((threads < count ? threads : count) - 1, work, &shared);
    if (shared.failure) std::rethrow_exception(shared.failure);
}

}  // namespace maxmargin
