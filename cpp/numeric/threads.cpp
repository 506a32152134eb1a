#include "numeric/threads.hpp"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#endif

namespace maxmargin {

namespace {

#if defined(__unix__) || defined(__APPLE__)
long this_process() { return static_cast<long>(getpid()); }

// Signals are for threads that know what to do with them; a thread has the mask of the one that starts it.
class NoSignals {
  public:
    NoSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    NoSignals(const NoSignals&) = delete;
    NoSignals& operator=(const NoSignals&) = delete;

  private:
    sigset_t before_;
};
#else
long this_process() { return 0; }
struct NoSignals {};
#endif

// A busy system likes to wake a thread where its waker runs, and then it only keeps that from working. Whoever finds itself on the
// processor of its caller leaves it for one of the others that it may use, and is woken there the next time.
#ifdef __linux__
int this_processor() { return sched_getcpu(); }
// Whether it could.
bool leave_processor(int processor) {
    cpu_set_t allowed;
    if (processor < 0 || processor >= CPU_SETSIZE || sched_getaffinity(getpid(), sizeof allowed, &allowed) != 0) return false;
    CPU_CLR(processor, &allowed);
    return CPU_COUNT(&allowed) > 0 && sched_setaffinity(0, sizeof allowed, &allowed) == 0;
}
#else
// Never the one that somebody else is on.
int this_processor() { return -1; }
bool leave_processor(int) { return false; }
#endif

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// To fall asleep and be woken takes some 50 microseconds, which is as long as it mostly lasts until there is something to do.
template <class Ready>
bool soon(const Ready& ready) {
    constexpr int kTries = 1000;
    for (int k = 0; k < kTries; ++k) {
        if (ready()) return true;
        pause();
    }
    return false;
}

class Pool {
  public:
    Pool() : process(this_process()) {}
    // A child that was forked has none of the threads.
    const long process;

    void run(std::size_t helpers, void (*work)(void*), void* context) {
        Job job{work, context, helpers, this_processor()};
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            engage(helpers);
            job.place = jobs_.insert(jobs_.end(), &job);
            wanted_.fetch_add(helpers);
        }
        for (std::size_t k = 0; k < helpers; ++k) called_.notify_one();
        work(context);
        std::unique_lock<std::mutex> lock(mutex_);
        wanted_.fetch_sub(job.wanted);
        if (job.wanted > 0) jobs_.erase(job.place);
        job.wanted = 0;
        if (job.helping.load() > 0) {
            lock.unlock();
            soon([&] { return job.helping.load() == 0; });
            lock.lock();
            // Whoever helped has let go of the job by the time the lock is to be had.
            finished_.wait(lock, [&] { return job.helping.load() == 0; });
        }
    }

  private:
    struct Job {
        void (*const work)(void*);
        void* const context;
        std::size_t wanted;  // helpers that may still come
        std::atomic<std::size_t> helping{0};
        const int processor;  // of the caller
        std::list<Job*>::iterator place{};
        Job(void (*what)(void*), void* with, std::size_t helpers, int where) : work(what), context(with), wanted(helpers), processor(where) {}
    };

    // More threads if those that are free are too few; the caller is one of as many as the machine has cores. Where the system
    // gives none, those at hand do all the work.
    void engage(std::size_t helpers) {
        const std::size_t cores = std::max(2u, std::thread::hardware_concurrency());
        const NoSignals quiet;
        try {
            while (n_threads_ - n_busy_ < helpers + wanted_.load() && n_threads_ + 1 < cores) {
                std::thread([this] { serve(); }).detach();
                ++n_threads_;
            }
        } catch (const std::system_error&) {
        }
    }

    [[noreturn]] void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            if (jobs_.empty()) {
                lock.unlock();
                soon([&] { return wanted_.load() > 0; });
                lock.lock();
                called_.wait(lock, [&] { return !jobs_.empty(); });
            }
            const int processor = jobs_.front()->processor;
            if (processor == this_processor()) {
                // Nobody waits for it meanwhile.
                lock.unlock();
                const bool left = leave_processor(processor);
                lock.lock();
                if (left || jobs_.empty()) continue;
            }
            help(*jobs_.front(), lock);
        }
    }

    // The lock is let go while there is work.
    void help(Job& job, std::unique_lock<std::mutex>& lock) {
        job.helping.fetch_add(1);
        wanted_.fetch_sub(1);
        if (--job.wanted == 0) jobs_.erase(job.place);
        ++n_busy_;
        lock.unlock();
        job.work(job.context);
        lock.lock();
        --n_busy_;
        // The job may be gone after this, as soon as the lock is.
        if (job.helping.fetch_sub(1) == 1) finished_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable called_, finished_;
    std::list<Job*> jobs_;  // that want help, the oldest first
    std::atomic<std::size_t> wanted_{0};
    std::size_t n_threads_ = 0, n_busy_ = 0;
};

// It lives as long as the process: threads may be waiting, or even at work, while that ends.
Pool& pool() {
    static std::atomic<Pool*> current{nullptr};
    Pool* found = current.load(std::memory_order_acquire);
    while (!found || found->process != this_process()) {
        // What a forked child has of its parent's threads is left alone: locks may be held by those that are no more.
        auto* fresh = new Pool;
        if (current.compare_exchange_strong(found, fresh)) return *fresh;
        delete fresh;
    }
    return *found;
}

}  // namespace

void run_with_help(std::size_t helpers, void (*work)(void*), void* context) { pool().run(helpers, work, context); }

}  // namespace maxmargin
