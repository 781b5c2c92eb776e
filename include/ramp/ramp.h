/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ramp's C interface: one MoE layer's experts on one GPU, from router ids to BF16 output, with the
 * kernel's configuration chosen on the GPU from the ids (docs/c-abi.md has a whole program).
 *
 * Rules that hold for every function:
 *   - It returns RAMP_OK or a status; ramp_last_error() then has the text for the calling thread.
 *   - A struct starts with struct_size, which the caller sets to sizeof of the struct it was
 *     compiled with; all else 0 is a valid default.  Fields may be added at the end.
 *   - "Device address" means memory of the GPU of the calling thread's CUDA context; "host" memory
 *     is read before the function returns and not kept.
 *   - Tensors are contiguous and row-major.
 */
#ifndef RAMP_RAMP_H_
#define RAMP_RAMP_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RAMP_API __attribute__((visibility("default")))
#else
#define RAMP_API
#endif

/* Raised when a program compiled with an older header would go wrong. */
#define RAMP_ABI_VERSION 1
#define RAMP_MAX_ENTRIES 16

typedef enum ramp_status {
  RAMP_OK = 0,
  RAMP_ERROR_ARGUMENT =
      1,               /* an argument, a plan, a file or this machine is not right; see the text */
  RAMP_ERROR_CUDA = 2, /* the driver refused, or a kernel faulted */
  RAMP_ERROR_MEMORY = 3,  /* no host memory */
  RAMP_ERROR_INTERNAL = 4 /* a mistake of ramp's */
} ramp_status;

/* One layer's weights, kernels and menu.  Immutable once made: calls from several threads and on
 * several streams may run at the same time, each with a workspace of its own. */
typedef struct ramp_layer ramp_layer;

/* Eq. 3's coefficients of an entry, in us: fixed, a wave, a tile, an active expert. */
typedef struct ramp_theta {
  float fixed, wave, tile, expert;
} ramp_theta;

enum {
  RAMP_LAYER_ALLOW_COMPILE = 1,    /* compile kernels that are not in the cache (seconds) */
  RAMP_LAYER_ALLOW_FOREIGN_GPU = 2 /* take a plan that was made on another GPU */
};

typedef struct ramp_layer_options {
  size_t struct_size;
  uint32_t flags; /* RAMP_LAYER_* */

  /* The geometry.  With a plan, 0 takes the plan's value and any other must agree with it. */
  int32_t local_experts; /* experts on this GPU */
  int32_t top_k;         /* ids a token */
  int32_t hidden;        /* d, a multiple of 128 */
  int32_t intermediate;  /* h of one expert on this GPU, a multiple of 128 */

  int32_t experts;           /* E of the model; ids are 0 .. E - 1, -1 means none */
  int32_t first_expert;      /* the first of a contiguous share; not looked at with expert_map */
  const int32_t* expert_map; /* host, [experts] -> local expert or -1; NULL: contiguous */

  /* Where the menu comes from: one of the three, or none of them for the planned default menu. */
  const char* plan_path;    /* a plan file */
  const char* plan_text;    /* the same as text */
  const char* const* knobs; /* [num_entries] JSON objects, as a plan's "knobs" */
  const ramp_theta* theta;  /* [num_entries], beside knobs */
  int32_t num_entries;      /* 1 .. RAMP_MAX_ENTRIES, beside knobs */

  const char* cache_dir; /* of compiled kernels; NULL: RAMP_CACHE_DIR, else the user's cache */
} ramp_layer_options;

/* Device addresses, read in place and not copied: they must outlive the layer. */
typedef struct ramp_weights {
  size_t struct_size;
  const void* w13;  /* e4m3 [local_experts, 2h, d]: gate rows, then up rows; 16-byte aligned */
  const float* s13; /* [local_experts, 2h / 128, d / 128]: value = e4m3 x scale */
  const void* w2;   /* e4m3 [local_experts, d, h]; 16-byte aligned */
  const float* s2;  /* [local_experts, d / 128, h / 128] */
} ramp_weights;

enum {
  RAMP_CALL_FORCE = 1,        /* run entry `entry` of the menu of the call's size: no choice */
  RAMP_CALL_PREFILL = 2,      /* request `prefill` weight units ahead instead of the default */
  RAMP_CALL_PREPARE_ONLY = 4, /* for timing: only the first kernel */
  RAMP_CALL_FFN_ONLY = 8      /* for timing: only the second, on what the first left */
};

typedef struct ramp_call {
  size_t struct_size;
  uint32_t flags; /* RAMP_CALL_* */
  int32_t tokens; /* 0: nothing is launched and the output is untouched */
  int32_t entry;
  int32_t prefill;
  const void* hidden;          /* device, bf16 [tokens, d]; 16-byte aligned */
  const int32_t* ids;          /* device, [tokens, top_k]; NULL with ready_counts */
  const float* gates;          /* device, [tokens, top_k] router weights; NULL: all 1 */
  const int32_t* ready_counts; /* device, [local_experts]: rows stand grouped by expert already,
                                  and hidden, gates [tokens] and output are by row */
  void* output;                /* device, bf16 [tokens, d], written whole; 16-byte aligned; no part
                                  of hidden */
  void* workspace;             /* device, 256-byte aligned, of one stream at a time */
  size_t workspace_bytes;      /* at least ramp_workspace_bytes(tokens) */
  void* stream;                /* CUstream or cudaStream_t; NULL: the default stream */

  /* Rows that are quantised already, with ids or with ready_counts: hidden is e4m3 [tokens, d],
   * and here are its scales (device), one a row and 128 columns; value = e4m3 x scale.  The strides
   * are floats from expert to expert (looked at with slots), row to row and group to group; all 0:
   * [tokens, d / 128]. */
  const float* hidden_scales;
  int64_t scale_strides[3];
  /* With ready_counts: hidden, gates and output are [local_experts, slots, ...], of which the first
   * ready_counts[e] rows of expert e are there; tokens is local_experts * slots.  Other rows are
   * not read, and the output's keep what they had.  0: an expert's rows begin where those of the
   * one before end. */
  int32_t slots;
  /* With ready_counts: how many rows there will be, as near as the caller knows (0: tokens).  It
   * picks the menu of a plan and what is asked for ahead; results are right whatever it is. */
  int32_t expected_rows;
} ramp_call;

/* Since the workspace was initialised or the counters were cleared, and of the last call. */
typedef struct ramp_counters {
  size_t struct_size;
  uint32_t passes;    /* calls with tokens */
  uint32_t foreign;   /* ids of experts on other GPUs: skipped */
  uint32_t padded;    /* ids of -1: skipped */
  uint32_t invalid;   /* ids out of range: skipped; ready_counts out of range: cut */
  uint32_t duplicate; /* ids that their token had already: computed twice */
  uint32_t nan_gates; /* router weights that are NaN: such a token's output is NaN */
  uint32_t entry_runs[RAMP_MAX_ENTRIES]; /* by entry of the menu that a call of its size runs */
  int32_t last_entry;                    /* that ran */
  int32_t last_rows;                     /* token-expert pairs of this GPU */
  int32_t last_tiles;                    /* row tiles that blocks claimed */
} ramp_counters;

/* RAMP_ABI_VERSION of the library; a program checks it against its header's. */
RAMP_API int32_t ramp_abi_version(void);
/* "0.1.0 (commit)". */
RAMP_API const char* ramp_version(void);
/* Text of this thread's last call that returns a status, empty if it succeeded.  Valid until the
 * next one. */
RAMP_API const char* ramp_last_error(void);

/* Checks everything, loads the kernels into the calling thread's current CUDA context (of a GPU of
 * compute capability 9.0) and makes the layer.  Layers of an equal menu share their kernels.  May
 * allocate, read files, and with RAMP_LAYER_ALLOW_COMPILE compile: not inside a capture.
 * *layer is NULL after a failure. */
RAMP_API ramp_status ramp_layer_create(const ramp_layer_options* options,
                                       const ramp_weights* weights, ramp_layer** layer);
/* Nothing of the layer may still run.  NULL is allowed. */
RAMP_API void ramp_layer_destroy(ramp_layer* layer);

/* One JSON object: menu (labels, knobs, theta), smaller (other menus, for calls of up to "up_to"
 * tokens), shape, plan, device, registers, shared_bytes,
 * notes.  Owned by the layer. */
RAMP_API ramp_status ramp_layer_describe(const ramp_layer* layer, const char** json);

/* Bytes of workspace for calls of up to `tokens` tokens. */
RAMP_API ramp_status ramp_workspace_bytes(const ramp_layer* layer, int32_t tokens, size_t* bytes);
/* The same for one call, which with ready_counts or e4m3 rows needs less, and with ready_counts may
 * bring more tokens.  Only sizes are looked at, and which pointers are NULL. */
RAMP_API ramp_status ramp_call_workspace_bytes(const ramp_layer* layer, const ramp_call* call,
                                               size_t* bytes);
/* Once for each workspace before its first call: sets the counters to 0, in the stream.  Results
 * don't depend on it. */
RAMP_API ramp_status ramp_workspace_init(const ramp_layer* layer, void* workspace, void* stream);

/* Two launches on the stream.  Allocates nothing, waits for nothing, can be captured; a replay
 * reads the ids anew.  Refuses what can be seen without reading device memory before it launches.
 */
RAMP_API ramp_status ramp_layer_forward(const ramp_layer* layer, const ramp_call* call);

/* Waits for the stream and reads.  clear: set the counters to 0 afterwards. */
RAMP_API ramp_status ramp_layer_counters(const ramp_layer* layer, void* workspace, void* stream,
                                         int32_t clear, ramp_counters* counters);

#ifdef __cplusplus
}
#endif

#endif /* RAMP_RAMP_H_ */
