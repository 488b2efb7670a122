/* Makes the k-th system call below one folder fail, write too little, or end the process.

   Loaded with LD_PRELOAD and armed from Python through ctypes (faults.py), so that one process can try every k. Only
   calls that concern the folder count: paths inside it, and descriptors that were opened there, also before arming
   when the folder was watched then. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define DESCRIPTORS 4096
enum { FAIL = 0, SHORT_WRITE = 1, KILL = 2 };

static char root[4096];
static size_t root_length;
static char inside[DESCRIPTORS];
static int armed, mode, error_number;
static long calls, first, last, fired;
static char where[4400];

/* From now on it is noted which descriptors are opened below the folder. */
void soak_watch(const char *folder) {
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
}
/* `count` calls in a row fail from the k-th on. */
void soak_arm(const char *folder, long k, long count, int error, int how) {
    soak_watch(folder);
    calls = fired = 0;
    first = k;
    last = k + count - 1;
    error_number = error;
    mode = how;
    where[0] = 0;
    armed = 1;
}
long soak_disarm(void) { armed = 0; return fired; }
long soak_calls(void) { return calls; }
const char *soak_where(void) { return where; }

static int below(const char *path) {
    return path && !strncmp(path, root, root_length) && (path[root_length] == '/' || path[root_length] == 0);
}
static int mine(int fd) { return fd >= 0 && fd < DESCRIPTORS && inside[fd]; }
static int concerns(int directory, const char *path) {
    if (!root_length) return 0;
    if (path && path[0] == '/') return below(path);
    return path && directory != AT_FDCWD && mine(directory);
}

/* 1 when this call must fail; errno is set then. */
static int hit(const char *name, const char *path, int is_write) {
    if (!armed) return 0;
    calls++;
    if (calls < first || calls > last) return 0;
    if (mode == SHORT_WRITE && !is_write) return 0;
    if (!fired) snprintf(where, sizeof where, "%s %s", name, path ? path : "");
    fired++;
    if (mode == KILL) kill(getpid(), SIGKILL);
    errno = error_number;
    return 1;
}
static int opened(int fd, int yes) {
    if (fd >= 0 && fd < DESCRIPTORS) inside[fd] = yes;
    return fd;
}

#define REAL(result, name, parameters) \
    static result(*real) parameters; \
    if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name)
#define ON_PATH(result, name, parameters, arguments, directory, path) \
    result name parameters { \
        REAL(result, name, parameters); \
        if (concerns(directory, path) && hit(#name, path, 0)) return (result)-1; \
        return real arguments; \
    }
#define ON_DESCRIPTOR(result, name, parameters, arguments, fd) \
    result name parameters { \
        REAL(result, name, parameters); \
        if (armed && mine(fd) && hit(#name, 0, 0)) return (result)-1; \
        return real arguments; \
    }
#define OPEN(name, parameters, arguments, directory, path) \
    int name parameters { \
        mode_t bits = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); bits = va_arg(rest, mode_t); va_end(rest); } \
        REAL(int, name, parameters); \
        int here = concerns(directory, path); \
        if (here && hit(#name, path, 0)) return -1; \
        return opened(real arguments, here); \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, bits), AT_FDCWD, path)
OPEN(open64, (const char *path, int flags, ...), (path, flags, bits), AT_FDCWD, path)
OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, bits), dir, path)
OPEN(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, bits), dir, path)

ON_PATH(int, rename, (const char *a, const char *b), (a, b), AT_FDCWD, a)
ON_PATH(int, renameat, (int x, const char *a, int y, const char *b), (x, a, y, b), x, a)
ON_PATH(int, renameat2, (int x, const char *a, int y, const char *b, unsigned f), (x, a, y, b, f), x, a)
ON_PATH(int, link, (const char *a, const char *b), (a, b), AT_FDCWD, a)
ON_PATH(int, linkat, (int x, const char *a, int y, const char *b, int f), (x, a, y, b, f), x, a)
ON_PATH(int, unlink, (const char *a), (a), AT_FDCWD, a)
ON_PATH(int, unlinkat, (int x, const char *a, int f), (x, a, f), x, a)
ON_PATH(int, rmdir, (const char *a), (a), AT_FDCWD, a)
ON_PATH(int, mkdir, (const char *a, mode_t m), (a, m), AT_FDCWD, a)
ON_PATH(int, mkdirat, (int x, const char *a, mode_t m), (x, a, m), x, a)
ON_PATH(int, chmod, (const char *a, mode_t m), (a, m), AT_FDCWD, a)
ON_PATH(int, fchmodat, (int x, const char *a, mode_t m, int f), (x, a, m, f), x, a)
ON_PATH(int, stat, (const char *a, struct stat *s), (a, s), AT_FDCWD, a)
ON_PATH(int, stat64, (const char *a, struct stat64 *s), (a, s), AT_FDCWD, a)
ON_PATH(int, lstat, (const char *a, struct stat *s), (a, s), AT_FDCWD, a)
ON_PATH(int, lstat64, (const char *a, struct stat64 *s), (a, s), AT_FDCWD, a)
ON_PATH(int, fstatat, (int x, const char *a, struct stat *s, int f), (x, a, s, f), x, a)
ON_PATH(int, fstatat64, (int x, const char *a, struct stat64 *s, int f), (x, a, s, f), x, a)
ON_PATH(ssize_t, readlink, (const char *a, char *b, size_t n), (a, b, n), AT_FDCWD, a)
ON_PATH(ssize_t, readlinkat, (int x, const char *a, char *b, size_t n), (x, a, b, n), x, a)

ON_DESCRIPTOR(int, fsync, (int fd), (fd), fd)
ON_DESCRIPTOR(int, fdatasync, (int fd), (fd), fd)
ON_DESCRIPTOR(int, fstat, (int fd, struct stat *s), (fd, s), fd)
ON_DESCRIPTOR(int, fstat64, (int fd, struct stat64 *s), (fd, s), fd)
ON_DESCRIPTOR(int, ftruncate, (int fd, off_t n), (fd, n), fd)
ON_DESCRIPTOR(int, ftruncate64, (int fd, off64_t n), (fd, n), fd)
ON_DESCRIPTOR(int, fchmod, (int fd, mode_t m), (fd, m), fd)
ON_DESCRIPTOR(int, flock, (int fd, int how), (fd, how), fd)
ON_DESCRIPTOR(ssize_t, read, (int fd, void *b, size_t n), (fd, b, n), fd)
ON_DESCRIPTOR(ssize_t, pread, (int fd, void *b, size_t n, off_t o), (fd, b, n, o), fd)
ON_DESCRIPTOR(ssize_t, pread64, (int fd, void *b, size_t n, off64_t o), (fd, b, n, o), fd)

/* A failing close has released the descriptor all the same, as on Linux. */
int close(int fd) {
    REAL(int, close, (int));
    int bad = armed && mine(fd) && hit("close", 0, 0);
    int result = real(fd);
    opened(fd, 0);
    if (bad) { errno = error_number; return -1; }
    return result;
}

#define WRITE(name, parameters, arguments) \
    ssize_t name parameters { \
        REAL(ssize_t, name, parameters); \
        if (armed && mine(fd) && hit(#name, 0, 1)) { \
            if (mode != SHORT_WRITE) return -1; \
            if (n > 1) n /= 2; \
        } \
        return real arguments; \
    }
WRITE(write, (int fd, const void *b, size_t n), (fd, b, n))
WRITE(pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRITE(pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))

#define CONTROL(name) \
    int name(int fd, int command, ...) { \
        va_list rest; va_start(rest, command); void *argument = va_arg(rest, void *); va_end(rest); \
        REAL(int, name, (int, int, ...)); \
        int here = armed && mine(fd); \
        if (here && hit(#name, 0, 0)) return -1; \
        int result = real(fd, command, argument); \
        if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) opened(result, here); \
        return result; \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

DIR *fdopendir(int fd) {
    REAL(DIR *, fdopendir, (int));
    if (armed && mine(fd) && hit("fdopendir", 0, 0)) return 0;
    return real(fd);
}
#define READ_FOLDER(name, entry) \
    struct entry *name(DIR *folder) { \
        REAL(struct entry *, name, (DIR *)); \
        if (armed && mine(dirfd(folder)) && hit(#name, 0, 0)) return 0; \
        return real(folder); \
    }
READ_FOLDER(readdir, dirent)
READ_FOLDER(readdir64, dirent64)
int closedir(DIR *folder) {
    REAL(int, closedir, (DIR *));
    opened(dirfd(folder), 0);
    return real(folder);
}
