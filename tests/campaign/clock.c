/* A wall clock that is OFFSET s off, for every program of a host that preloads this library.

The times of files that are written SINCE a time of the true clock are off by as much. The monotonic
clock is the kernel's, and so are the times at which processes began, as on a real host. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define shift(seconds) (*(seconds) += *(seconds) >= SINCE ? OFFSET : 0)

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += OFFSET;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (where)
        *where = exact.tv_sec;
    return exact.tv_sec;
}

int fstatat(int folder, const char *path, struct stat *found, int flags)
{
    if (syscall(SYS_newfstatat, folder, path, found, flags))
        return -1;
    shift(&found->st_atim.tv_sec);
    shift(&found->st_mtim.tv_sec);
    shift(&found->st_ctim.tv_sec);
    return 0;
}

int stat(const char *path, struct stat *found) { return fstatat(AT_FDCWD, path, found, 0); }

int lstat(const char *path, struct stat *found)
{
    return fstatat(AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat *found) { return fstatat(file, "", found, AT_EMPTY_PATH); }

/* With large files these have the same layout under other names. */
int fstatat64(int folder, const char *path, struct stat64 *found, int flags)
{
    return fstatat(folder, path, (struct stat *)found, flags);
}

int stat64(const char *path, struct stat64 *found) { return stat(path, (struct stat *)found); }

int lstat64(const char *path, struct stat64 *found) { return lstat(path, (struct stat *)found); }

int fstat64(int file, struct stat64 *found) { return fstat(file, (struct stat *)found); }

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *found)
{
    if (syscall(SYS_statx, folder, path, flags, mask, found))
        return -1;
    shift(&found->stx_atime.tv_sec);
    shift(&found->stx_btime.tv_sec);
    shift(&found->stx_ctime.tv_sec);
    shift(&found->stx_mtime.tv_sec);
    return 0;
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags)
{
    struct timespec kept[2];
    for (int at = 0; times && at < 2; at++) {
        kept[at] = times[at];
        int given = kept[at].tv_nsec != UTIME_NOW && kept[at].tv_nsec != UTIME_OMIT;
        if (given && kept[at].tv_sec - OFFSET >= SINCE)
            kept[at].tv_sec -= OFFSET;
    }
    return (int)syscall(SYS_utimensat, folder, path, times ? kept : (void *)0, flags);
}

int futimens(int file, const struct timespec times[2])
{
    return utimensat(file, (void *)0, times, 0);
}
