/* The smallest PMIx program: joins, meets all other ranks at a fence, and says how many they are. */
#include <pmix.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	pmix_proc_t self, all;
	pmix_value_t *value;
	unsigned size = 0;
	char host[64];
	int rc = PMIx_Init(&self, NULL, 0);

	if (rc != PMIX_SUCCESS) {
		fprintf(stderr, "PMIx_Init: %s\n", PMIx_Error_string(rc));
		return 1;
	}
	gethostname(host, sizeof(host));
	all = self;
	all.rank = PMIX_RANK_WILDCARD;
	if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value) == PMIX_SUCCESS)
		size = value->data.uint32;
	rc = PMIx_Fence(&all, 1, NULL, 0);
	printf("%s rank %u of %u, fence: %s\n", host, self.rank, size, PMIx_Error_string(rc));
	PMIx_Finalize(NULL, 0);
	return rc == PMIX_SUCCESS ? 0 : 1;
}
