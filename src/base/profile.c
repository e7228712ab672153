/* SPDX-License-Identifier: MIT */
#include "src/base/profile.h"

#include <pthread.h>
#include <stdio.h>

#include <nvtx3/nvToolsExt.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static nvtxDomainHandle_t domain; /* NULL: no profiler is attached */

static void
make_domain(void)
{
    domain = nvtxDomainCreateA("ferry");
}

void *
ferryi_profile_domain(void)
{
    pthread_once(&once, make_domain);
    return domain;
}

bool
ferryi_profile_begin(const char *what, const char *name, const char *reason)
{
    if (!ferryi_profile_domain())
        return false;
    char text[256];
    bool named = name && *name, reasoned = reason && *reason;
    snprintf(text, sizeof(text), "%s%s%.160s%s%s%s", what, named ? " \"" : "", named ? name : "",
             named ? "\"" : "", reasoned ? " for " : "", reasoned ? reason : "");
    const nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                              .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                              .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                              .message.ascii = text};
    nvtxDomainRangePushEx(domain, &attributes);
    return true;
}

void
ferryi_profile_end(void)
{
    nvtxDomainRangePop(domain);
}
