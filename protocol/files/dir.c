#include "protocol/files/dir.h"

#include "protocol/base/fault.h"
#include "protocol/files/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASIDE_DIGITS 8
#define ASIDE_END ".tmp"
#define N_ASIDE_MOST 100 /* names that are tried */

/* --- entries of a folder --- */

static const char *kind_text(mode_t mode)
{
    return S_ISLNK(mode)   ? "a link"
           : S_ISDIR(mode) ? "a folder"
           : S_ISREG(mode) ? "a file"
                           : "a device, pipe or socket";
}

static enum status fail(enum status code, const struct dir *dir, const char *what, const char *name, int error)
{
    return status_fail(code, "cannot %s '%s/%s': %s", what, dir->path, name, strerror(error));
}

/* A name cannot be opened as a folder: report its kind. `folder` is "" if the name is a whole path. */
static enum status fail_folder(int at, const char *folder, const char *name, int error)
{
    struct stat about;
    const char *slash = folder[0] != '\0' ? "/" : "";
    if ((error == ENOTDIR || error == ELOOP) && fstatat(at, name, &about, AT_SYMLINK_NOFOLLOW) == 0) {
        return status_fail(STATUS_CREATE, "'%s%s%s' is %s, expected a folder", folder, slash, name,
                           kind_text(about.st_mode));
    }
    return status_fail(error == ENOENT ? STATUS_NO_INPUT : STATUS_CREATE, "cannot open folder '%s%s%s': %s", folder,
                       slash, name, strerror(error));
}

static enum status path_set(struct dir *dir, const char *folder, const char *name)
{
    int n = folder[0] != '\0' ? snprintf(dir->path, sizeof dir->path, "%s/%s", folder, name)
                              : snprintf(dir->path, sizeof dir->path, "%s", name);
    dir->file = -1;
    return n < (int)sizeof dir->path
               ? STATUS_OK
               : status_fail(STATUS_CREATE, "folder '%.200s…': its path is too long for this system", dir->path);
}

/* Is the link `name` of the folder `at` one that this user may follow? */
static enum status link_check(int at, const char *path, int link)
{
    struct stat about, parent;
    if (fstat(link, &about) != 0 || fstat(at, &parent) != 0) {
        return status_fail(STATUS_CREATE, "cannot open folder '%s': %s", path, strerror(errno));
    }
    return about.st_uid == geteuid() || about.st_uid == 0 || about.st_uid == parent.st_uid
               ? STATUS_OK
               : status_fail(STATUS_CREATE,
                             "'%s' is a link of another user (%u), expected a folder or a link of one's own", path,
                             (unsigned)about.st_uid);
}

/* Follow the link that a path without slashes at its end names. It is read once: a link that replaces it meanwhile is
 * not followed. */
static enum status open_own_link(struct dir *out)
{
    char parent[PATH_MAX], target[PATH_MAX] = "";
    const char *slash = strrchr(out->path, '/'), *name = slash != NULL ? slash + 1 : out->path;
    int n = slash != NULL ? (int)(name - out->path) : 1;
    snprintf(parent, sizeof parent, "%.*s", n, slash != NULL ? out->path : ".");
    int at = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int link = at >= 0 ? openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
    enum status status = STATUS_OK;
    if (link < 0 || readlinkat(link, "", target, sizeof target - 1) <= 0) {
        status = fail_folder(AT_FDCWD, "", out->path, link < 0 ? errno : ENOTDIR);
    } else {
        status = link_check(at, out->path, link);
    }
    if (status == STATUS_OK) {
        out->file = openat(at, target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        status = out->file >= 0 ? STATUS_OK : fail_folder(AT_FDCWD, "", out->path, errno);
    }
    if (link >= 0) {
        close(link);
    }
    if (at >= 0) {
        close(at);
    }
    return status;
}

enum status dir_open(const char *path, enum dir_last last, struct dir *out)
{
    enum status status = path_set(out, "", path);
    if (status != STATUS_OK) {
        return status;
    }
    /* A slash at the end would follow the link before it. */
    size_t n = strlen(out->path);
    for (; last != DIR_LAST_FOLLOWED && n > 1 && out->path[n - 1] == '/'; n--) {
        out->path[n - 1] = '\0';
    }
    out->file = open(out->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (last != DIR_LAST_FOLLOWED ? O_NOFOLLOW : 0));
    if (out->file < 0 && last == DIR_LAST_OWN_LINK && (errno == ENOTDIR || errno == ELOOP)) {
        return open_own_link(out);
    }
    return out->file >= 0 ? STATUS_OK : fail_folder(AT_FDCWD, "", out->path, errno);
}

void dir_close(struct dir *dir)
{
    if (dir->file >= 0) {
        close(dir->file);
    }
    dir->file = -1;
}

enum status dir_inner(const struct dir *dir, const char *name, bool makes, struct dir *out)
{
    bool is_itself = strcmp(name, ".") == 0;
    enum status status = path_set(out, is_itself ? "" : dir->path, is_itself ? dir->path : name);
    if (status != STATUS_OK) {
        return status;
    }
    if (makes && mkdirat(dir->file, name, 0777) != 0 && errno != EEXIST) {
        return fail(STATUS_CREATE, dir, "make folder", name, errno);
    }
    out->file = openat(dir->file, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return out->file >= 0 ? STATUS_OK : fail_folder(dir->file, dir->path, name, errno);
}

/* In a folder with the sticky bit only a file's user, and the folder's, may remove it or put another in its place. */
static bool is_kept(const struct dir *dir, const struct stat *about)
{
    struct stat folder;
    uid_t user = geteuid();
    return user != 0 && about->st_uid != user && fstat(dir->file, &folder) == 0 && (folder.st_mode & S_ISVTX) != 0 &&
           folder.st_uid != user;
}

enum status dir_file_check(const struct dir *dir, const char *name)
{
    struct stat about;
    if (fstatat(dir->file, name, &about, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? STATUS_OK : fail(STATUS_CREATE, dir, "look at", name, errno);
    }
    if (!S_ISREG(about.st_mode)) {
        return status_fail(STATUS_CREATE, "'%s/%s' is %s, expected a file", dir->path, name,
                           kind_text(about.st_mode));
    }
    return !is_kept(dir, &about)
               ? STATUS_OK
               : status_fail(STATUS_CREATE,
                             "'%s/%s' belongs to user %u, and the folder's sticky bit keeps it from others: "
                             "expected another folder",
                             dir->path, name, (unsigned)about.st_uid);
}

enum status dir_file_open(const struct dir *dir, const char *name, int *file_out)
{
    struct stat about;
    /* Without O_NONBLOCK opening a pipe waits for its writer. */
    int file = openat(dir->file, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    int error = errno;
    if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
        *file_out = file;
        return STATUS_OK;
    }
    if (file >= 0) {
        close(file);
    } else if (error == ENOENT) {
        return fail(STATUS_NO_INPUT, dir, "open", name, error);
    }
    enum status status = dir_file_check(dir, name);
    return status != STATUS_OK ? status : fail(STATUS_IO, dir, "open", name, error);
}

/* --- removing --- */

enum status dir_file_remove(const struct dir *dir, const char *name)
{
    enum status status = dir_file_check(dir, name);
    if (status == STATUS_OK && unlinkat(dir->file, name, 0) != 0 && errno != ENOENT) {
        status = fail(STATUS_IO, dir, "remove", name, errno);
    }
    return status;
}

/* Final name of a temporary file; false if the name is not a temporary's. */
static bool aside_of(const char *name, char out[NAME_MAX + 1])
{
    size_t n = strlen(name), n_end = 1 + ASIDE_DIGITS + sizeof ASIDE_END - 1;
    if (n <= n_end || n > NAME_MAX) {
        return false;
    }
    const char *end = name + n - n_end;
    if (end[0] != '.' || strspn(end + 1, "0123456789abcdef") != ASIDE_DIGITS ||
        strcmp(end + 1 + ASIDE_DIGITS, ASIDE_END) != 0) {
        return false;
    }
    memcpy(out, name, n - n_end);
    out[n - n_end] = '\0';
    return true;
}

/* A plain file? A temporary one must also belong to this user, and have no other name. */
static bool is_removable(const struct dir *dir, const char *name, bool is_aside)
{
    struct stat about;
    return fstatat(dir->file, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
           (!is_aside || (about.st_uid == geteuid() && about.st_nlink == 1));
}

static void remove_all(const struct dir *dir, dir_fits *fits, bool asides)
{
    int again = openat(dir->file, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* fdopendir takes it */
    DIR *all = again >= 0 ? fdopendir(again) : NULL;
    if (all == NULL) {
        if (again >= 0) {
            close(again);
        }
        return;
    }
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        char of[NAME_MAX + 1];
        bool is_one = asides ? aside_of(entry->d_name, of) && fits(of) : fits(entry->d_name);
        if (is_one && is_removable(dir, entry->d_name, asides)) {
            unlinkat(dir->file, entry->d_name, 0);
        }
    }
    closedir(all);
}

void dir_files_remove(const struct dir *dir, dir_fits *fits)
{
    remove_all(dir, fits, false);
}

void dir_asides_remove(const struct dir *dir, dir_fits *fits)
{
    remove_all(dir, fits, true);
}

/* --- temporary files --- */

/* The next name to try; it need not be secret: O_EXCL refuses what is there. */
static bool aside_name(const char *name, char out[NAME_MAX + 1])
{
    unsigned number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number) {
        static unsigned turn;
        number = (unsigned)getpid() * 0x9e3779b1u + turn++;
    }
    return snprintf(out, NAME_MAX + 1, "%s.%0*x" ASIDE_END, name, ASIDE_DIGITS, number) <= NAME_MAX;
}

static enum status too_long(const struct dir *dir, const char *name)
{
    return status_fail(STATUS_CREATE, "cannot create '%s/%s': its name is too long for this system", dir->path, name);
}

enum status dir_aside_begin(const struct dir *dir, const char *name, int flags, struct dir_aside *out)
{
    out->file = -1;
    errno = EEXIST;
    for (int i = 0; i < N_ASIDE_MOST && out->file < 0 && errno == EEXIST; i++) {
        if (!aside_name(name, out->name)) {
            return too_long(dir, name);
        }
        out->file = openat(dir->file, out->name, flags | O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    }
    return out->file >= 0 ? STATUS_OK : fail(STATUS_CREATE, dir, "create", name, errno);
}

void dir_aside_drop(const struct dir *dir, struct dir_aside *aside)
{
    if (aside->file >= 0) {
        unlinkat(dir->file, aside->name, 0);
        close(aside->file);
    }
    aside->file = -1;
}

/* Returns 0 or errno. */
static int aside_move(const struct dir *dir, const char *name, const struct dir_aside *aside, int error)
{
    FAULT(FSYNC);
    if (error == 0 && fsync(aside->file) != 0) {
        error = errno;
    }
    FAULT(RENAME);
    if (error == 0 && renameat(dir->file, aside->name, dir->file, name) != 0) {
        error = errno;
    }
    FAULT(RENAMED);
    return error;
}

enum status dir_aside_end(const struct dir *dir, const char *name, struct dir_aside *aside, int error, int *keep)
{
    enum status status = error == 0 ? dir_file_check(dir, name) : STATUS_OK;
    if (status == STATUS_OK) {
        error = aside_move(dir, name, aside, error);
    }
    if (status != STATUS_OK || error != 0) {
        dir_aside_drop(dir, aside);
        return status != STATUS_OK ? status : fail(STATUS_IO, dir, "write", name, error);
    }
    /* A renamed file is safe only when its folder is also on the disk. */
    error = fsync(dir->file) != 0 ? errno : 0;
    if (keep != NULL && error == 0) {
        *keep = aside->file;
    } else if (close(aside->file) != 0 && error == 0) {
        error = errno;
    }
    aside->file = -1;
    return error == 0 ? STATUS_OK : fail(STATUS_IO, dir, "write", name, error);
}

enum status dir_replace(const struct dir *dir, const char *name, const struct iovec *piece, int n_piece)
{
    struct dir_aside aside;
    enum status status = dir_aside_begin(dir, name, 0, &aside);
    int error = 0;
    if (status != STATUS_OK) {
        return status;
    }
    for (int i = 0; i < n_piece && error == 0; i++) {
        error = file_write(aside.file, piece[i].iov_base, piece[i].iov_len);
        if (i == 0) {
            FAULT(WRITE);
        }
    }
    return dir_aside_end(dir, name, &aside, error, NULL);
}

enum status dir_replace_mapped(const struct dir *dir, const char *name, size_t n_bytes,
                               enum status (*fill)(void *context, char *bytes), void *context)
{
    struct dir_aside aside;
    char *bytes = NULL;
    enum status status = dir_aside_begin(dir, name, 0, &aside);
    if (status != STATUS_OK) {
        return status;
    }
    /* Without free space for its pages, writing to the memory would end the process with SIGBUS. */
    int error;
    do {
        error = posix_fallocate(aside.file, 0, (off_t)n_bytes);
    } while (error == EINTR);
    if (error == 0) {
        bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, aside.file, 0);
        error = bytes != MAP_FAILED ? 0 : errno;
    }
    if (error == 0) {
        status = fill(context, bytes);
        FAULT(WRITE);
        munmap(bytes, n_bytes);
    }
    if (status != STATUS_OK) {
        dir_aside_drop(dir, &aside);
        return status;
    }
    return dir_aside_end(dir, name, &aside, error, NULL);
}

/* --- links and second names --- */

enum status dir_link_replace(const struct dir *dir, const char *name, const char *target)
{
    struct stat about;
    char aside[NAME_MAX + 1];
    if (fstatat(dir->file, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(about.st_mode)) {
        return status_fail(STATUS_CREATE, "'%s/%s' is %s, expected a link", dir->path, name,
                           kind_text(about.st_mode));
    }
    int made = -1;
    errno = EEXIST;
    for (int i = 0; i < N_ASIDE_MOST && made != 0 && errno == EEXIST; i++) {
        if (!aside_name(name, aside)) {
            return too_long(dir, name);
        }
        made = symlinkat(target, dir->file, aside);
    }
    int error = made != 0 || renameat(dir->file, aside, dir->file, name) != 0 ? errno : 0;
    if (made == 0 && error != 0) {
        unlinkat(dir->file, aside, 0);
    }
    return error == 0 ? STATUS_OK : fail(STATUS_CREATE, dir, "make the link", name, error);
}

void dir_link_remove(const struct dir *dir, const char *name, const char *target)
{
    char found[PATH_MAX];
    ssize_t n = readlinkat(dir->file, name, found, sizeof found);
    if (n >= 0 && (size_t)n == strlen(target) && memcmp(found, target, (size_t)n) == 0) {
        unlinkat(dir->file, name, 0);
    }
}

/* Give a second name, replacing an existing entry. Returns 0 or errno. */
static int second_name(const struct dir *from, const char *from_name, const struct dir *to, const char *to_name)
{
    struct stat one, other;
    char aside[NAME_MAX + 1];
    if (fstatat(from->file, from_name, &one, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno;
    }
    if (fstatat(to->file, to_name, &other, AT_SYMLINK_NOFOLLOW) == 0 && one.st_dev == other.st_dev &&
        one.st_ino == other.st_ino) {
        return 0; /* rename would leave both names */
    }
    if (!aside_name(to_name, aside)) {
        return ENAMETOOLONG;
    }
    if (linkat(from->file, from_name, to->file, aside, 0) != 0) {
        return errno;
    }
    int error = renameat(to->file, aside, to->file, to_name) != 0 ? errno : 0;
    if (error != 0) {
        unlinkat(to->file, aside, 0);
    }
    return error;
}

static enum status copy(int in, const struct dir *to, const char *to_name)
{
    char bytes[1 << 16];
    ssize_t n;
    struct dir_aside aside;
    enum status status = dir_aside_begin(to, to_name, 0, &aside);
    if (status != STATUS_OK) {
        return status;
    }
    int error = 0;
    while (error == 0 && (n = read(in, bytes, sizeof bytes)) != 0) {
        error = n > 0 ? file_write(aside.file, bytes, (size_t)n) : errno == EINTR ? 0 : errno;
    }
    return dir_aside_end(to, to_name, &aside, error, NULL);
}

enum status dir_share(const struct dir *from, const char *from_name, const struct dir *to, const char *to_name,
                      bool copies)
{
    int in = -1;
    enum status status = dir_file_open(from, from_name, &in);
    if (status != STATUS_OK) {
        return status;
    }
    status = dir_file_check(to, to_name);
    if (status == STATUS_OK && (copies || second_name(from, from_name, to, to_name) != 0)) {
        status = copy(in, to, to_name);
    }
    close(in);
    return status;
}

enum status dir_user(const struct dir *dir, uid_t *out)
{
    struct stat about;
    struct dir_aside aside;
    enum status status = dir_aside_begin(dir, ".user", 0, &aside);
    *out = geteuid();
    if (status == STATUS_OK && fstat(aside.file, &about) == 0) {
        *out = about.st_uid;
    }
    dir_aside_drop(dir, &aside);
    return status;
}
