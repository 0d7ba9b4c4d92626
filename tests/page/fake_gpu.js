/**
 * A GPU for tests of the layer: it keeps the order and the refusals of WebGPU. A kernel's
 * "code" is the name of a function over the bytes of its bindings, which takes its `ns`.
 */

import { CHAIN } from "../../resources/studio/gpu/clock.js";

Object.assign(globalThis, {
  GPUBufferUsage: { MAP_READ: 1, COPY_SRC: 4, COPY_DST: 8, STORAGE: 128, QUERY_RESOLVE: 512, UNIFORM: 64 },
  GPUMapMode: { READ: 1 },
  GPUShaderStage: { COMPUTE: 4 },
});

const CHAIN_NS = 40_000n;
const chain = () => {};
const later = () => new Promise((resolve) => setTimeout(resolve, 0));

class FakeBuffer {
  state = "unmapped";

  constructor(device, { size }) {
    this.device = device;
    this.size = size;
    this.bytes = new Uint8Array(size);
  }

  async mapAsync() {
    this.state = "pending";
    await later();
    if (this.device.gone) throw Object.assign(new Error("the device is lost"), { name: "AbortError" });
    if (this.device.badMaps-- > 0) throw Object.assign(new Error("the map failed"), { name: "OperationError" });
    this.device.badMaps = Math.max(0, this.device.badMaps);
    this.state = "mapped";
  }

  getMappedRange(offset, nbytes) {
    if (this.state !== "mapped") throw new Error("not mapped");
    return this.bytes.buffer.slice(offset, offset + nbytes);
  }

  unmap() {
    this.state = "unmapped";
  }

  destroy() {
    this.state = "destroyed";
  }
}

export class FakeDevice extends EventTarget {
  gone = false;
  badMaps = 0;
  clock = 0n;
  /** Of the chain that tells how fast the GPU's clock is (gpu/clock.js): ns of the next looks. */
  chain_ns = [];
  looks = 0;
  submits = 0;
  passes = [];
  compiled = [];
  scopes = [];

  constructor(kernels) {
    super();
    this.kernels = kernels;
    this.lost = new Promise((resolve) => (this.lose = resolve));
    this.queue = {
      writeBuffer: (buffer, offset, bytes) => buffer.bytes.set(bytes, offset),
      submit: (lists) => {
        this.submits++;
        for (const { commands, uses } of lists) {
          if (uses.some((b) => b.state !== "unmapped")) this.fail("a buffer of the submit is not to be used");
          else if (uses.invalid) this.fail(uses.invalid);
          else for (const run of commands) run();
        }
      },
      onSubmittedWorkDone: later,
    };
  }

  fail(message) {
    const scope = this.scopes.findLast((s) => s.filter === "validation");
    if (scope) scope.error ??= { message };
    else this.dispatchEvent(Object.assign(new Event("uncapturederror"), { error: { message } }));
  }

  pushErrorScope(filter) {
    this.scopes.push({ filter, error: null });
  }

  async popErrorScope() {
    const { error } = this.scopes.pop();
    await later();
    return error;
  }

  destroy() {
    this.gone = true;
    setTimeout(() => this.lose({ reason: "destroyed", message: "destroyed" }), 1);
  }

  createBuffer(descriptor) {
    return new FakeBuffer(this, descriptor);
  }

  createQuerySet({ count }) {
    return { times: new BigInt64Array(count) };
  }

  createBindGroupLayout({ label }) {
    return { label };
  }

  createPipelineLayout({ bindGroupLayouts: [layout] }) {
    return layout;
  }

  createShaderModule({ code }) {
    const known = code in this.kernels;
    if (!known) this.fail("invalid module");
    const messages = known ? [] : [{ type: "error", lineNum: 3, message: `there is no ${code}` }];
    return { code, getCompilationInfo: async () => ({ messages }) };
  }

  async createComputePipelineAsync({ compute: { module } }) {
    this.compiled.push(module.code);
    await later();
    if (this.gone || !(module.code in this.kernels)) throw Object.assign(new Error("no pipeline"), { name: "GPUPipelineError" });
    return { run: this.kernels[module.code] };
  }

  createBindGroup({ entries }) {
    if (entries.some(({ resource }) => resource.buffer.state === "destroyed")) this.fail("a destroyed buffer is bound");
    return entries.map(({ resource: { buffer, offset, size } }) => ({ buffer, offset, size }));
  }

  createCommandEncoder() {
    const commands = [];
    const uses = [];
    return {
      beginComputePass: ({ timestampWrites: t } = {}) => {
        const pass = { dispatches: 0, begin: t?.beginningOfPassWriteIndex ?? null, end: t?.endOfPassWriteIndex ?? null };
        this.passes.push(pass);
        let pipeline;
        let group;
        const stamp = (index) => index !== null && commands.push(() => void (t.querySet.times[index] = this.clock));
        stamp(pass.begin);
        return {
          setPipeline: (p) => (pipeline = p),
          setBindGroup: (_, g) => (group = g),
          dispatchWorkgroups: (...workgroups) => {
            const [run, bound] = [pipeline.run, group];
            pass.dispatches++;
            uses.push(...bound.map((b) => b.buffer));
            if (run === null) uses.invalid = "the dispatch is not valid";
            commands.push(() => {
              if (run === chain) this.looks++;
              this.clock += run === chain ? (this.chain_ns.shift() ?? CHAIN_NS) : (run.ns ?? 1000n);
              run(bound.map(({ buffer, offset, size }) => buffer.bytes.subarray(offset, offset + size)), workgroups);
            });
          },
          end: () => stamp(pass.end),
        };
      },
      copyBufferToBuffer: (from, fromOffset, to, toOffset, nbytes) => {
        uses.push(from, to);
        commands.push(() => to.bytes.set(from.bytes.subarray(fromOffset, fromOffset + nbytes), toOffset));
      },
      resolveQuerySet: (set, first, count, buffer, offset) => {
        uses.push(buffer);
        commands.push(() => buffer.bytes.set(new Uint8Array(set.times.buffer, first * 8, count * 8), offset));
      },
      finish: () => ({ commands, uses }),
    };
  }
}

/** A clock that moves lets the quantum be found: its kernel does nothing. */
export function fakeGpu(kernels, { nulls = 0, features = ["timestamp-query"], limits = {} } = {}) {
  const devices = [];
  const adapter = {
    features: new Set(features),
    limits: {
      maxBufferSize: 2 ** 28,
      maxStorageBufferBindingSize: 2 ** 27,
      maxStorageBuffersPerShaderStage: 8,
      maxComputeWorkgroupsPerDimension: 65535,
      minStorageBufferOffsetAlignment: 256,
      ...limits,
    },
    info: { vendor: "fake", architecture: "", device: "", description: "of the tests" },
    requestDevice: async () => {
      const busy = (name) => String(name).includes("1664525u"); // of quantum.js: it only takes time
      const found = {
        get: (known, name) => (busy(name) ? () => {} : name === CHAIN ? chain : known[name]),
        has: (known, name) => busy(name) || name === CHAIN || name in known,
      };
      devices.push(new FakeDevice(new Proxy(kernels, found)));
      return devices.at(-1);
    },
  };
  return { devices, wgslLanguageFeatures: ["packed_4x8_integer_dot_product"], requestAdapter: async () => (nulls-- > 0 ? null : adapter) };
}
