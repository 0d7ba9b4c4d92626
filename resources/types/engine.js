/** Types of the engine: nothing here runs, so no bundle ships it. */

/**
 * New rows `[heads, rows, width]` of a cache `[heads, capacity, width]`, or with
 * `columns` of `[heads, width, capacity]`; elements of `nbytes`.
 * @typedef {{heads: number, rows: number, width: number, capacity: number, nbytes: number, columns: boolean}} Append
 */
/**
 * Steps that run again and again (nnjit_studio/model/plan.py): all but `trips` and `going` are buffers.
 * @typedef {object} Loop
 * @property {number} trips
 * @property {number} count or -1
 * @property {number} number
 * @property {boolean} going whether the first carried tensor is a condition
 * @property {{start: number, read: number, written: number, last: number, other: number}[]} carried
 * @property {{whole: number, row: number, backward: boolean}[]} rows
 * @property {[number, number][]} copies from, to
 */
/** @typedef {{name: string, shape: number[], dtype: string}} TensorSpec */
/**
 * `value`: what an input has to be; `most`: what none of its elements may exceed; `found`: the axis of an output that is as long as the i64 in a buffer says.
 * @typedef {{spec: TensorSpec, buffer: number, value?: number, most?: number, found?: {axis: number, count: number}}} PlanPort
 */
/** @typedef {{region: string, offset: number, nbytes: number, pack: [number, number] | null, unit_bytes?: number}} PlanBuffer */
/**
 * `scalars` are passed behind the pointers, and `extent` is that of the parallel loop, where sizes are parameters.
 * @typedef {{op: string, workload: string, args: number[], node: string, append?: Append, loop?: Loop, scalars?: number[], extent?: number}} PlanStep
 */
/**
 * @typedef {object} Plan
 * @property {number} version
 * @property {string} name
 * @property {PlanPort[]} inputs
 * @property {PlanPort[]} outputs
 * @property {PlanBuffer[]} buffers
 * @property {PlanStep[]} steps
 * @property {PlanStep[]} [gpu_steps] in a bundle of an older version: what a GPU runs in place of `steps`
 * @property {number} weights_bytes
 * @property {number} arena_bytes
 * @property {number} [state_bytes] memory that keeps its contents from run to run
 */
/**
 * Steps on one device (nnjit_studio/model/segments.py); `first` is the position of the first in the whole plan, `buffers` the
 * numbers there of the buffers of this one. @typedef {{device: "webgpu" | "wasm", first: number, plan: Plan, buffers: number[]}} Segment
 */
/** @typedef {{version: number, segments: Segment[]}} MixedPlan */
/** A number, or terms `[coefficient, atom, ...]`; an atom is a dimension's name or `[operation, size, size]`. @typedef {number | any[][]} Size */
/** @typedef {{kind: string, size: Size, over?: Size}} Scalar `kind`: int, or float, inverse or quotient (size over `over`), passed as bits */
/** @typedef {{workload: string, scalars: Scalar[], extent: Size}} Variant */
/** @typedef {{selectors: [Size, number][], variants: Variant[]}} OpenKernel */
/** @typedef {{name: string, dtype: string, shape: Size[], buffer: number, value?: number, most?: Size, found?: {axis: number, count: number}}} OpenPort */
/**
 * A plan for any size (nnjit_studio/model/open_plan.py).
 * @typedef {object} OpenPlan
 * @property {number} version
 * @property {string} name
 * @property {{name: string, low: number, high: number, step: number}[]} dims
 * @property {Record<string, number>} example
 * @property {OpenPort[]} inputs
 * @property {OpenPort[]} outputs
 * @property {{region: string, offset: number, nbytes: Size, pack: [number, number] | null, unit_bytes?: number}[]} buffers
 * @property {PlanStep[]} steps
 * @property {Record<string, OpenKernel>} kernels
 * @property {Size[]} [trips] of the loops among the steps
 * @property {number} weights_bytes
 * @property {PlanStep[]} [gpu_steps] what a GPU runs in place of `steps`
 */
/**
 * Byte addresses in linear memory.
 * @typedef {object} Layout
 * @property {number[][]} addresses of each plan's buffers
 * @property {number} state where the state begins
 * @property {number} total_bytes
 * @property {number} pages
 */
/**
 * What travels with a kernel's bytes (records.Kernel.header).
 * @typedef {object} KernelHeader
 * @property {string} workload
 * @property {string} settings
 * @property {string} [tier]
 * @property {string} [sha256]
 * @property {[number, number][]} panels argument index and panel width it wants
 * @property {number} parallel_extent
 */
/** @typedef {(...pointersBeginEnd: number[]) => void} Run */
/**
 * Bytes of a buffer right after a step, before the memory is used again; `step` is the
 * index of a plan step, `offset` lies in the buffer.
 * @typedef {{step: number, buffer: number, offset: number, nbytes: number}} Tap
 */
/** @typedef {{buffer: PlanBuffer, pack: [number, number], width: number}} Weight in panels of `width`, 0 = row-major */
/** @typedef {KernelHeader & {bytes: BufferSource}} NewKernel */
/** @typedef {KernelHeader & {module: WebAssembly.Module}} ReadyKernel for this kind of memory */
/** @typedef {TensorSpec & {data: Uint8Array}} Tensor */
/**
 * @typedef {{outputs: Tensor[], runs_ms: number[], steps_ms: number[], steps_iqr_ms: number[],
 *   steps_threads: number[], steps_chunks: number[][], taps: Uint8Array[]}} Inference
 */
/**
 * `id` is the team's name for it; `choice` is null where there is no team, or nothing to share.
 * @typedef {{header: KernelHeader, run: Run, id: number, choice: Settled | null}} Registered
 */
/** @typedef {{team: boolean, run: (solo: () => void, team: () => void) => void}} Settled alone or on the team */
/**
 * One instruction, bound; `kernel` is null where none runs.
 * @typedef {{kernel: Registered | null, choice: Settled | null, solo: () => void, team: () => void}} Call
 */
/**
 * A plan in memory, where `state` begins at an address; `calls` is null until every workload of it has a kernel, `choices`
 * are of steps whose extents follow from sizes.
 * @typedef {{plan: Plan, memory: WebAssembly.Memory, state: number, addresses: number[], loops: Loops | null,
 *   choices?: {of: (kernel: Registered, extent: number) => Settled}, calls: Call[] | null}} Loaded
 */
/** Buffers of a call in a loop, and the lists that have their addresses in this order. @typedef {{args: number[], pointers: number[][]}} Bound */
/**
 * What an engine needs for plans with loops; null where they may have none.
 * @typedef {object} Loops
 * @property {(loop: Loop, loaded: {plan: Plan, memory: WebAssembly.Memory, addresses: number[]}, body: () => void, bound: Bound[], node: string) => () => void} bindLoop the loop as one step; `body` runs all its steps, which read and write what is `bound`
 * @property {(loop: Loop | undefined, plan: Plan, node: string) => void} checkLoop refuses one that would read or write outside its buffers
 */
/** @typedef {{file: string, sha256: string, nbytes: number}} FileEntry */
/** @typedef {KernelHeader & {tiers: Partial<Record<string, FileEntry>>}} KernelEntry */
/** @typedef {{workload: string, settings: string, tiers: Partial<Record<string, FileEntry>>}} GpuKernelEntry */
/**
 * Which inputs and outputs play which part (nnjit_studio/model/generation.py).
 * @typedef {object} Generation
 * @property {number} capacity slots of the cache
 * @property {number} rows tokens that the prefill plan takes; 0 without one
 * @property {string} ids
 * @property {string} mask
 * @property {string} logits
 * @property {string} positions may be empty
 * @property {string} slot
 * @property {string} last may be empty
 * @property {boolean} [extends] whether a third plan reads `rows` tokens behind those in the cache
 */
/** @typedef {{role: string, dtype: string, nbytes: number, pack: [number, number] | null, low: number, high: number}} TrialArg */
/** Digests of what a compile service gives (nnjit_studio/commons/kernels/lots.py), by workload, then by tier and registers. @typedef {Record<string, Record<string, string[]>>} Lots */
/** Random memory where candidates of a workload are judged (nnjit_studio/bundle/manifest.py). @typedef {{workload: string, args: TrialArg[], tolerance: number}} TrialMemory */
/** One file, or several whose contents follow one another. @typedef {FileEntry | {nbytes: number, shards: FileEntry[]}} Weights */
/**
 * @typedef {object} Manifest
 * @property {string} format
 * @property {number} version
 * @property {string} name
 * @property {string} [sha256] of the manifest's own bytes, with zeros in its place; older bundles have none
 * @property {FileEntry} plan
 * @property {Weights} weights
 * @property {KernelEntry[]} kernels
 * @property {GpuKernelEntry[]} [gpu_kernels] for WebGPU
 * @property {FileEntry} [mixed] how steps are divided between WebGPU and Wasm, where some run there
 * @property {{kernels: KernelEntry[], trials: TrialMemory[], share: string, lots?: Lots}} [candidates] to be tried in the page
 * @property {TensorSpec[]} inputs of a model for any size, at the sizes of its example
 * @property {{name: string, low: number, high: number, step: number}[]} [dims] of a model for any size
 * @property {{facts: Generation, prefill: FileEntry | null, extend?: FileEntry | null}} [generation] of a decoder
 * @property {{inputs: (TensorSpec & FileEntry)[]}} [samples]
 * @property {{inputs: {name: string, kind: string}[], outputs: {name: string, kind: string}[]}} [demo] what the page shows
 * @property {FileEntry} [tokenizer]
 * @property {FileEntry} [labels]
 */
/** What all providers need. @typedef {{base: URL, manifest: Manifest, plan: Plan | OpenPlan, others: Record<string, Plan>}} Bundle */

export {};
