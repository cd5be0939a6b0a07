/* Lists the files of a folder and when they were used. */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/os/os.h"

clef_status clef__os_list(const char *folder,
                          clef_status (*visit)(void *user, const clef__os_file_info *file), void *user)
{
    enum { MAX_PATH_BYTES = 1024 };
    char path[MAX_PATH_BYTES];
    clef_status s = CLEF_OK;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && !s && (e = readdir(dir)) != NULL;) {
        struct stat st;
        const int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (n > 0 && n < MAX_PATH_BYTES && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            s = visit(user,
                      &(clef__os_file_info){path, e->d_name, (uint64_t)st.st_size, (int64_t)st.st_mtime});
    }
    if (dir)
        closedir(dir);
    return s;
}

void clef__os_touch(const char *path)
{
    utimensat(AT_FDCWD, path, NULL, 0);
}
