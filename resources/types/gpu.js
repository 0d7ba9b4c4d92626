/**
 * The GPU layer: one narrow interface with two implementations, engine/gpu/native/ over
 * navigator.gpu and studio/gpu/bridge.js over wgpu-native behind the hub (docs/webgpu.md).
 */

/** @typedef {"navigator" | "bridge"} Implementation */
/**
 * Where a device comes from; `bridge` is the address of the hub's WebSocket for it.
 * @typedef {{implementation: Implementation, bridge?: string}} GpuSource
 */
/**
 * Of the adapter; strings are empty where they are not told.
 * @typedef {object} GpuInfo
 * @property {string} vendor
 * @property {string} architecture
 * @property {string} device
 * @property {string} description
 * @property {string} driver
 * @property {boolean} is_fallback a software adapter: no GPU
 * @property {Implementation} implementation
 * @property {string[]} language_features of WGSL
 * @property {number} subgroup_min 0 without subgroups
 * @property {number} subgroup_max
 */
/**
 * A storage buffer, zeroed when it is made; `nbytes` is a multiple of 4. Nothing of
 * it but `nbytes` and `label` is read outside the layer that made it.
 * @typedef {{readonly nbytes: number, readonly label: string}} GpuBuf
 */
/** `uniform` is of a buffer that was made for it, which the bridge has not. @typedef {"read" | "read_write" | "uniform"} Access */
/** @typedef {{code: string, entry: string, access: readonly Access[]}} PipelineSpec @group(0), one binding for each access */
/**
 * `ms` is what making it took; of one that was there already, what it took then.
 * @typedef {{readonly spec: PipelineSpec, readonly ms: number}} GpuPipeline
 */
/** @typedef {{buffer: GpuBuf, offset: number, size: number}} Binding in bytes */
/** @typedef {{op: "dispatch", pipeline: GpuPipeline, bindings: readonly Binding[], workgroups: readonly [number, number, number]}} Dispatch */
/** @typedef {{op: "copy", from: GpuBuf, fromOffset: number, to: GpuBuf, toOffset: number, nbytes: number}} Copy multiples of 4, two buffers */
/** @typedef {{op: "stamp", index: number}} Stamp ends the pass and keeps the GPU's time in slot `index` */
/** @typedef {Dispatch | Copy | Stamp} Command */
/**
 * How often each thing happened since the device was made.
 * @typedef {object} GpuCounters
 * @property {number} flushes
 * @property {number} passes
 * @property {number} dispatches
 * @property {number} copies
 * @property {number} bind_groups_made
 * @property {number} bind_groups_hit
 * @property {number} staging_made
 * @property {number} staging_reused
 * @property {number} pipelines_made
 * @property {number} pipelines_hit
 * @property {number} pipelines_ms summed over pipelines, which are made side by side
 * @property {number} buffers_made
 * @property {number} buffer_bytes alive now
 * @property {number} up_bytes
 * @property {number} down_bytes
 * @property {number} waits of `read`, `readStamps` and `done`
 * @property {number} waited_ms
 */
/** @typedef {{available: boolean, quantum_ns: number, slots: number}} GpuTimestamps `quantum_ns` is 0 where there are none */
/**
 * A device. All but `pipeline`, `read`, `readStamps` and `done` return at once. What a
 * program sees is as if every call ran when it was made: `write`, `read`, `encode` and
 * `destroyBuffer` keep their order, whatever is flushed when. Misuse (a range outside its
 * buffer, a dead buffer, odd sizes) throws an EngineError before anything is queued.
 *
 * Errors that the GPU reports later, each a GpuError (errors.js):
 * `pipeline` rejects with what the compiler said; `read` and `done` reject when work queued
 * before them failed (validation, memory), a read also when its own copy failed; others go
 * on. When the device is lost, all that is pending rejects with reason "lost", and so does
 * every later call.
 *
 * @typedef {object} GpuDevice
 * @property {GpuInfo} info
 * @property {Set<string>} features of WebGPU, all that the adapter has and a kernel could use
 * @property {Record<string, number>} limits the adapter's
 * @property {Promise<{reason: string, message: string}>} lost never rejects; "destroyed" by `destroy` alone
 * @property {GpuTimestamps} timestamps
 * @property {GpuCounters} counters
 * @property {(nbytes: number, label?: string, uniform?: boolean) => GpuBuf} createBuffer
 * @property {(buf: GpuBuf) => void} destroyBuffer when what uses it has run; twice is harmless
 * @property {(buf: GpuBuf, offset: number, bytes: Uint8Array) => void} write the bytes are copied at once; multiples of 4
 * @property {(spec: PipelineSpec) => Promise<GpuPipeline>} pipeline compiled without waiting for others; equal specs give one pipeline
 * @property {(commands: readonly Command[]) => void} encode
 * @property {() => void} flush
 * @property {(buf: GpuBuf, offset: number, nbytes: number, hurried?: boolean) => Promise<Uint8Array<ArrayBuffer>>} read flushes first; multiples of 4.
 * Not `hurried`, it may come some ms late and keeps nobody busy: for who has queued more behind it
 * @property {(buf: GpuBuf, offset: number, sizes: readonly number[]) => Promise<Uint8Array<ArrayBuffer>[]>} readParts as `read`, parts that lie one after another, each into an array of its own
 * @property {(count: number) => Promise<BigInt64Array>} readStamps ns of the first slots; flushes first
 * @property {(hurried?: boolean) => Promise<void>} done flushes; resolves as soon as the GPU is seen to have run all before; not `hurried` as in `read`
 * @property {() => void} lose forces a loss with reason "unknown", for tests
 * @property {() => void} destroy
 */

export {};
