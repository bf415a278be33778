/*
 * A stand-in for pyxis (NVIDIA's SPANK plugin that runs job steps in containers) for a test cluster
 * without a container runtime. It proves what the scripts ask of pyxis, not pyxis itself.
 *
 * srun accepts pyxis's --container-* options, and each step gets a mount namespace of its own: an
 * overlay over the host's root (one upper layer a container) with the binds asked for. As in pyxis:
 *   - a named container outlives its step, and its job; a later step that names it gets the same files;
 *   - a name that exists wins over --container-image, silently; one that does not needs the image;
 *   - the variables of an image win over the job's unless --container-env names them.
 * Each node and step writes a line "JOB.STEP NODE import|reuse|import-failed ..." to state/log, so that
 * a test can count imports.
 *
 * plugstack.conf:  required /path/pyxis_standin.so state=DIR [images=DIR] [scope=job|global] [delay_ms=N]
 *   state=DIR    a tmpfs (an upper layer must not lie on the filesystem that holds /): DIR/NODE/pyxis_NAME
 *   images=DIR   DIR/NAME/env holds an image's own KEY=VALUE lines, DIR/NAME/fail-on the nodes, one a line,
 *                where its import fails; NAME is the image with every character outside [A-Za-z0-9._-]
 *                turned into "_". An image is known if DIR/NAME or, for a path, the file exists.
 *   delay_ms=N   how long an import takes
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(pyxis_standin, 1);

#define BATCH_STEP 0xfffffffb
#define EXTERN_STEP 0xfffffffc
#define INTERACTIVE_STEP 0xfffffffa

enum { IMAGE, MOUNTS, WORKDIR, NAME, SAVE, ENV, UNSHARE, N_TEXT };
enum { READONLY, WRITABLE, DEFAULT_MODE };
static char *text[N_TEXT];
static const char *state_dir, *images_dir;
static bool job_scope;
static int mode = DEFAULT_MODE;
static int delay_ms;

static struct {
	bool on, failed;
	int ns;
	uint32_t job, step;
	char name[256], node[128], image_dir[PATH_MAX], why[PATH_MAX + 200];
} c = { .ns = -1 };

/* Before the tasks exist an error reaches only the daemon's log: keep it, and the tasks report it to the user. */
#define fail(...) snprintf(c.why, sizeof(c.why), __VA_ARGS__)

static int opt_text(int val, const char *arg, int remote)
{
	if (arg == NULL || *arg == '\0') {
		slurm_error("pyxis: option needs an argument");
		return -1;
	}
	if (text[val] != NULL && strcmp(text[val], arg) != 0 && val != MOUNTS && val != ENV) {
		slurm_error("pyxis: option given twice with different values: %s", arg);
		return -1;
	}
	if (text[val] != NULL && (val == MOUNTS || val == ENV)) { /* lists add up */
		char *both = NULL;
		if (strcmp(text[val], arg) == 0)
			return 0;
		if (asprintf(&both, "%s,%s", text[val], arg) < 0)
			return -1;
		text[val] = both;
		return 0;
	}
	text[val] = strdup(arg);
	return text[val] ? 0 : -1;
}

static int opt_ignored(int val, const char *arg, int remote)
{
	return 0;
}

static int opt_mode(int val, const char *arg, int remote)
{
	if (mode != DEFAULT_MODE && mode != val) {
		slurm_error("pyxis: --container-writable and --container-readonly are mutually exclusive");
		return -1;
	}
	mode = val;
	return 0;
}

static struct spank_option options[] = {
	{ "container-image", "IMAGE", "[pyxis] image, or path to one", 1, IMAGE, opt_text },
	{ "container-mounts", "SRC:DST[:FLAGS][,...]", "[pyxis] bind mounts", 1, MOUNTS, opt_text },
	{ "container-workdir", "PATH", "[pyxis] working directory inside", 1, WORKDIR, opt_text },
	{ "container-name", "NAME", "[pyxis] keep the container, and reuse it, under this name", 1, NAME, opt_text },
	{ "container-save", "PATH", "[pyxis] leaves a file that names the container", 1, SAVE, opt_text },
	{ "container-env", "NAME[,...]", "[pyxis] variables where the job's value wins over the image's", 1, ENV, opt_text },
	{ "container-unshare", "NS[,...]", "[pyxis] accepted, does nothing", 1, UNSHARE, opt_text },
	{ "container-mount-home", NULL, "[pyxis] accepted, does nothing", 0, 1, opt_ignored },
	{ "no-container-mount-home", NULL, "[pyxis] accepted, does nothing", 0, 0, opt_ignored },
	{ "container-remap-root", NULL, "[pyxis] accepted, does nothing", 0, 1, opt_ignored },
	{ "no-container-remap-root", NULL, "[pyxis] accepted, does nothing", 0, 0, opt_ignored },
	{ "container-entrypoint", NULL, "[pyxis] accepted, does nothing", 0, 1, opt_ignored },
	{ "no-container-entrypoint", NULL, "[pyxis] accepted, does nothing", 0, 0, opt_ignored },
	{ "container-entrypoint-log", NULL, "[pyxis] accepted, does nothing", 0, 1, opt_ignored },
	{ "container-writable", NULL, "[pyxis] accepted and logged", 0, WRITABLE, opt_mode },
	{ "container-readonly", NULL, "[pyxis] accepted and logged", 0, READONLY, opt_mode },
	SPANK_OPTIONS_TABLE_END
};

int slurm_spank_init(spank_t sp, int ac, char *av[])
{
	spank_context_t ctx = spank_context();

	for (int i = 0; i < ac; i++) {
		if (!strncmp(av[i], "state=", 6))
			state_dir = strdup(av[i] + 6);
		else if (!strncmp(av[i], "images=", 7))
			images_dir = strdup(av[i] + 7);
		else if (!strncmp(av[i], "delay_ms=", 9))
			delay_ms = atoi(av[i] + 9);
		else if (!strcmp(av[i], "scope=job") || !strcmp(av[i], "scope=global"))
			job_scope = !strcmp(av[i], "scope=job");
		else {
			slurm_error("pyxis: unknown setting %s", av[i]);
			return -1;
		}
	}
	if (ctx != S_CTX_LOCAL && ctx != S_CTX_REMOTE && ctx != S_CTX_ALLOCATOR)
		return 0;
	for (int i = 0; options[i].name != NULL; i++)
		if (spank_option_register(sp, &options[i]) != ESPANK_SUCCESS) {
			slurm_error("pyxis: cannot register --%s", options[i].name);
			return -1;
		}
	return 0;
}

static void log_line(const char *fmt, ...)
{
	char path[PATH_MAX], line[8192];
	va_list ap;
	int fd, n = snprintf(line, sizeof(line), "%u.%d %s ", c.job, (int)c.step, c.node);

	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	snprintf(path, sizeof(path), "%s/log", state_dir);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	if (write(fd, line, n) < 0)
		slurm_error("pyxis: cannot write %s", path);
	close(fd);
}

static bool in_list_file(const char *path, const char *word)
{
	char line[256];
	bool found = false;
	FILE *f = fopen(path, "re");

	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = '\0';
		found = !strcmp(line, word);
	}
	if (f)
		fclose(f);
	return found;
}

static bool image_known(void)
{
	char safe[NAME_MAX + 1];
	struct stat st;
	size_t i;

	c.image_dir[0] = '\0';
	for (i = 0; text[IMAGE][i] && i < NAME_MAX; i++)
		safe[i] = isalnum((unsigned char)text[IMAGE][i]) || strchr("._-", text[IMAGE][i]) ? text[IMAGE][i] : '_';
	safe[i] = '\0';
	if (images_dir && snprintf(c.image_dir, sizeof(c.image_dir), "%s/%s", images_dir, safe) > 0 && !stat(c.image_dir, &st))
		return true;
	c.image_dir[0] = '\0';
	if (text[IMAGE][0] == '/' || text[IMAGE][0] == '.')
		return !stat(text[IMAGE], &st);
	return images_dir == NULL;
}

static int mkdirs(const char *path, bool last_is_file)
{
	char buf[PATH_MAX];
	int fd;

	snprintf(buf, sizeof(buf), "%s", path);
	for (char *p = buf + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			if (mkdir(buf, 0755) && errno != EEXIST)
				return -1;
			*p = '/';
		}
	if (!last_is_file)
		return mkdir(buf, 0755) && errno != EEXIST ? -1 : 0;
	fd = open(buf, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int bind_one(const char *root, char *spec)
{
	char *rest = spec, *src = strsep(&rest, ":"), *dst = rest ? strsep(&rest, ":") : src, *flags = rest;
	char target[PATH_MAX];
	struct stat st;

	if (!*src || !*dst || *dst != '/') {
		fail("pyxis: --container-mounts: invalid format: %s", spec);
		return -1;
	}
	if (snprintf(target, sizeof(target), "%s%s", root, dst) >= (int)sizeof(target))
		return -1;
	if (!strcmp(src, "tmpfs"))
		return mkdirs(target, false) || mount("tmpfs", target, "tmpfs", 0, NULL);
	if (stat(src, &st)) {
		fail("pyxis: --container-mounts: source path does not exist: %s", src);
		return -1;
	}
	if (mkdirs(target, !S_ISDIR(st.st_mode)) || mount(src, target, NULL, MS_BIND | MS_REC, NULL)) {
		fail("pyxis: cannot mount %s at %s: %s", src, dst, strerror(errno));
		return -1;
	}
	if (flags && !strncmp(flags, "ro", 2))
		return mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL);
	return 0;
}

/* In a child with a mount namespace of its own: overlay the host's root, add binds, move into it. */
static int build_root(const char *dir)
{
	char root[PATH_MAX], opt[3 * PATH_MAX], path[2 * PATH_MAX], *list, *one;
	const char *carry[] = { "/proc", "/sys", "/dev", "/run", "/tmp", NULL };
	FILE *f;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	if (snprintf(root, sizeof(root), "%s/root", dir) >= (int)sizeof(root))
		return -1;
	snprintf(opt, sizeof(opt), "lowerdir=/,upperdir=%s/upper,workdir=%s/work", dir, dir);
	if (mkdirs(root, false) || mount("overlay", root, "overlay", 0, opt)) {
		fail("pyxis: cannot overlay: %s", strerror(errno));
		return -1;
	}
	for (int i = 0; carry[i]; i++) {
		snprintf(path, sizeof(path), "%s%s", root, carry[i]);
		if (mount(carry[i], path, NULL, MS_BIND | MS_REC, NULL))
			return -1;
	}
	snprintf(path, sizeof(path), "%s/etc/hosts", root); /* a node's own, bound over the host's */
	mount("/etc/hosts", path, NULL, MS_BIND, NULL);
	list = text[MOUNTS] ? strdup(text[MOUNTS]) : NULL;
	while (list && (one = strsep(&list, ",")))
		if (bind_one(root, one))
			return -1;
	snprintf(path, sizeof(path), "%s/etc/pyxis_standin", root);
	if ((f = fopen(path, "we"))) {
		fprintf(f, "name=%s\nimage=%s\n", c.name, text[IMAGE] ? text[IMAGE] : "");
		fclose(f);
	}
	if (chdir(root) || mount(root, "/", NULL, MS_MOVE, NULL) || chroot("."))
		return -1;
	return chdir("/");
}

static int open_container(void)
{
	char base[PATH_MAX], dir[PATH_MAX + 300], path[PATH_MAX + 320], flag[16] = "auto", ref[PATH_MAX] = "";
	bool exists, temporary = text[NAME] == NULL;
	int lock, up[2], down[2], status = -1;
	char byte = '\n';
	ssize_t got;
	pid_t child;
	FILE *f;

	if (gethostname(c.node, sizeof(c.node)))
		return -1;
	if (temporary) {
		snprintf(c.name, sizeof(c.name), "pyxis_%u.%u", c.job, c.step);
	} else {
		char *colon = strchr(text[NAME], ':');
		if (colon) {
			snprintf(flag, sizeof(flag), "%s", colon + 1);
			*colon = '\0';
		}
		if (job_scope)
			snprintf(c.name, sizeof(c.name), "pyxis_%u_%s", c.job, text[NAME]);
		else
			snprintf(c.name, sizeof(c.name), "pyxis_%s", text[NAME]);
	}
	snprintf(base, sizeof(base), "%s/%s", state_dir, c.node);
	snprintf(dir, sizeof(dir), "%s/%s", base, c.name);
	if (mkdirs(base, false))
		return -1;
	snprintf(path, sizeof(path), "%s/.lock", base);
	lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	flock(lock, LOCK_EX);
	exists = !access(dir, F_OK);
	if (exists && !strcmp(flag, "create")) {
		fail("pyxis: error: \"create\" flag was passed to --container-name but the container already exists");
		goto fail;
	}
	if (exists) { /* what the container was made from */
		snprintf(path, sizeof(path), "%s/image", dir);
		if ((f = fopen(path, "re"))) {
			if (fgets(ref, sizeof(ref), f))
				ref[strcspn(ref, "\n")] = '\0';
			fclose(f);
		}
		slurm_spank_log("pyxis: reusing existing container filesystem");
		text[IMAGE] = strdup(ref);
		image_known();
	} else {
		if (text[IMAGE] == NULL) {
			fail("pyxis: error: a container with name \"%s\" does not exist, and --container-image is not set", c.name);
			goto fail;
		}
		slurm_spank_log("pyxis: importing docker image: %s", text[IMAGE]);
		bool known = image_known();
		snprintf(path, sizeof(path), "%.*s/fail-on", PATH_MAX - 10, c.image_dir);
		if (delay_ms)
			nanosleep(&(struct timespec){ delay_ms / 1000, delay_ms % 1000 * 1000000L }, NULL);
		if (!known || in_list_file(path, c.node)) {
			fail("pyxis: failed to import docker image: %s", text[IMAGE]);
			log_line("import-failed image=%s", text[IMAGE]);
			goto fail;
		}
		slurm_spank_log("pyxis: imported docker image: %s", text[IMAGE]);
		snprintf(path, sizeof(path), "%s/upper", dir);
		mkdirs(path, false);
		snprintf(path, sizeof(path), "%s/work", dir);
		mkdirs(path, false);
		snprintf(path, sizeof(path), "%s/image", dir);
		if ((f = fopen(path, "we"))) {
			fprintf(f, "%s\n", text[IMAGE]);
			fclose(f);
		}
	}
	if (pipe2(up, O_CLOEXEC) || pipe2(down, O_CLOEXEC))
		goto fail;
	child = fork();
	if (child == 0) {
		close(up[0]);
		close(down[1]);
		if (build_root(dir)) {
			if (c.why[0] == '\0')
				fail("pyxis: cannot build the container: %s", strerror(errno));
			_exit(write(up[1], c.why, strlen(c.why)) < 0 ? 2 : 1);
		}
		if (write(up[1], &byte, 1) == 1 && read(down[0], &byte, 1) >= 0)
			_exit(0);
		_exit(1);
	}
	close(up[1]);
	close(down[0]);
	got = child > 0 ? read(up[0], c.why, sizeof(c.why) - 1) : -1;
	c.why[got > 0 ? got : 0] = '\0';
	if (!strcmp(c.why, "\n")) {
		snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)child);
		c.ns = open(path, O_RDONLY | O_CLOEXEC);
	}
	close(up[0]);
	close(down[1]);
	waitpid(child, &status, 0);
	flock(lock, LOCK_UN);
	close(lock);
	if (c.ns < 0)
		return -1;
	log_line("%s name=%s image=%s mode=%s mounts=%s workdir=%s", exists ? "reuse" : "import", c.name, text[IMAGE],
		 mode == WRITABLE ? "writable" : mode == READONLY ? "readonly" : "default",
		 text[MOUNTS] ? text[MOUNTS] : "", text[WORKDIR] ? text[WORKDIR] : "");
	return 0;
fail:
	flock(lock, LOCK_UN);
	close(lock);
	return -1;
}

/* Runs once per node and step, as root; an error kept for the tasks, where it reaches srun's exit code. */
int slurm_spank_init_post_opt(spank_t sp, int ac, char *av[])
{
	if (spank_context() != S_CTX_REMOTE || (text[IMAGE] == NULL && text[NAME] == NULL))
		return 0;
	if (spank_get_item(sp, S_JOB_ID, &c.job) || spank_get_item(sp, S_JOB_STEPID, &c.step))
		return -1;
	if (c.step == EXTERN_STEP || c.step == INTERACTIVE_STEP)
		return 0;
	c.on = true;
	c.failed = open_container() != 0;
	return 0;
}

static bool names_variable(const char *list, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (!strncmp(p, key, n) && (p[n] == ',' || p[n] == '\0'))
			return true;
	return false;
}

int slurm_spank_task_init_privileged(spank_t sp, int ac, char *av[])
{
	char path[PATH_MAX + 8], line[4096];
	FILE *f = NULL;
	int local = 0;

	if (!c.on)
		return 0;
	if (c.failed) {
		if (!spank_get_item(sp, S_TASK_ID, &local) && local == 0) /* once a node */
			slurm_error("%s", c.why);
		return -1;
	}
	if (c.image_dir[0]) {
		snprintf(path, sizeof(path), "%s/env", c.image_dir);
		f = fopen(path, "re");
	}
	while (f && fgets(line, sizeof(line), f)) {
		char *eq = strchr(line, '=');
		if (!eq)
			continue;
		*eq = '\0';
		eq[1 + strcspn(eq + 1, "\n")] = '\0';
		if (!names_variable(text[ENV], line))
			spank_setenv(sp, line, eq + 1, 1);
	}
	if (f)
		fclose(f);
	if (setns(c.ns, CLONE_NEWNS)) {
		slurm_error("pyxis: couldn't join mount namespace: %s", strerror(errno));
		return -1;
	}
	return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char *av[])
{
	if (!c.on)
		return 0;
	if (chdir(text[WORKDIR] ? text[WORKDIR] : "/")) {
		slurm_error("pyxis: couldn't chdir to %s: %s", text[WORKDIR], strerror(errno));
		return -1;
	}
	return 0;
}

int slurm_spank_exit(spank_t sp, int ac, char *av[])
{
	char cmd[PATH_MAX + 300];

	if (spank_context() != S_CTX_REMOTE || !c.on)
		return 0;
	if (c.ns >= 0)
		close(c.ns);
	if (text[SAVE] != NULL) {
		FILE *f = fopen(text[SAVE], "we");
		if (f) {
			fprintf(f, "name=%s\nimage=%s\n", c.name, text[IMAGE] ? text[IMAGE] : "");
			fclose(f);
		}
	}
	if (text[NAME] == NULL) {
		snprintf(cmd, sizeof(cmd), "rm -rf --one-file-system '%s/%s/%s'", state_dir, c.node, c.name);
		return system(cmd) ? -1 : 0;
	}
	return 0;
}
