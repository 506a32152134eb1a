#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace maxmargin {

// task(0) .. task(count - 1), shared out among threads; the first exception is thrown on.
template <class Task>
void share_out(int n_threads, std::size_t count, const Task& task) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr failure;
    const auto work = [&] {
        for (std::size_t k; !failed && (k = next.fetch_add(1)) < count;) {
            try {
                task(k);
            } catch (...) {
                if (!failed.exchange(true)) failure = std::current_exception();
            }
        }
    };
    std::vector<std::thread> threads;
    const std::size_t helpers = std::min(count, static_cast<std::size_t>(std::max(1, n_threads))) - (count > 0);
    threads.reserve(helpers);
    try {
        for (std::size_t t = 0; t < helpers; ++t) threads.emplace_back(work);
    } catch (const std::system_error&) {
        // The system gives no more threads; those at hand do all the work.
    }
    work();
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace maxmargin
