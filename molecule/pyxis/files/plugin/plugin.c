/* Replaces pyxis in tests: same name and option, refuses unknown arguments. Tasks get the image name as TEST_IMAGE. */
#include <stdio.h>
#include <string.h>

#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1)

static char image[256];

static int take(int value, const char *argument, int remote)
{
	(void) value;
	(void) remote;
	snprintf(image, sizeof(image), "%s", argument);
	return 0;
}

static struct spank_option container = {
	"container-image", "PATH", "[test] pretend to run in this image", 1, 0, take
};

int slurm_spank_init(spank_t spank, int count, char **words)
{
	for (int i = 0; i < count; i++)
		if (strncmp(words[i], "runtime_path=", 13) && strncmp(words[i], "container_scope=", 16)) {
			slurm_error("pyxis: unknown configuration option: %s", words[i]);
			return -1;
		}
	return spank_remote(spank) || spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_ALLOCATOR ?
		spank_option_register(spank, &container) : 0;
}

int slurm_spank_task_init(spank_t spank, int count, char **words)
{
	(void) count;
	(void) words;
	return image[0] ? spank_setenv(spank, "TEST_IMAGE", image, 1) : 0;
}
