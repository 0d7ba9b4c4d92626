/** Bind groups, made once for each layout and tuple of buffers; they go with their buffers. */

/** @import { Access, Binding, GpuBuf, GpuCounters } from "../../../types/gpu.js" */
/** @typedef {{key: string, group: GPUBindGroup, layout: GPUBindGroupLayout, buffers: Bound[], dead: boolean}} Kept */
/**
 * What the cache needs of a buffer of the layer.
 * @typedef {{id: number, handle: GPUBuffer, groups: Set<Kept>}} Bound
 */

export class BindGroups {
  /** @type {Map<string, GPUBindGroupLayout>} by accesses */ #layouts = new Map();
  /** @type {Map<string, Kept>} */ #groups = new Map();
  /** @type {WeakMap<readonly Binding[], Kept>} the same list of bindings comes again and again */ #recent = new WeakMap();
  /** @param {GPUDevice} device @param {GpuCounters} counters */
  constructor(device, counters) {
    this.device = device;
    this.counters = counters;
  }

  /**
   * Of accesses; the label of each names them.
   * @param {readonly Access[]} access
   */
  layout(access) {
    const key = access.join();
    let layout = this.#layouts.get(key);
    if (!layout) {
      const entries = access.map((a, binding) => {
        /** @type {GPUBufferBindingType} */
        const type = a === "uniform" ? "uniform" : a === "read" ? "read-only-storage" : "storage";
        return { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } };
      });
      this.#layouts.set(key, (layout = this.device.createBindGroupLayout({ label: key, entries })));
    }
    return layout;
  }

  /**
   * The group of a list of bindings that came before, as it is or with equal contents.
   * @param {GPUBindGroupLayout} layout
   * @param {readonly Binding[]} bindings
   * @returns {GPUBindGroup | null}
   */
  known(layout, bindings) {
    let kept = this.#recent.get(bindings);
    if (!kept || kept.dead || kept.layout !== layout) {
      kept = this.#groups.get(keyOf(layout, bindings));
      if (!kept) return null;
      this.#recent.set(bindings, kept);
    }
    this.counters.bind_groups_hit++;
    return kept.group;
  }

  /** @param {Bound} buffer that dies */
  forget(buffer) {
    for (const kept of buffer.groups) {
      kept.dead = true;
      this.#groups.delete(kept.key);
      for (const other of kept.buffers) other.groups.delete(kept);
    }
  }

  get size() {
    return this.#groups.size;
  }

  /**
   * @param {GPUBindGroupLayout} layout
   * @param {readonly Binding[]} bindings checked, and not known
   * @returns {GPUBindGroup}
   */
  make(layout, bindings) {
    const entries = bindings.map(({ buffer, offset, size }, binding) => ({
      binding,
      resource: { buffer: bound(buffer).handle, offset, size },
    }));
    const buffers = bindings.map(({ buffer }) => bound(buffer));
    const key = keyOf(layout, bindings);
    const kept = { key, group: this.device.createBindGroup({ layout, entries }), layout, buffers, dead: false };
    for (const buffer of buffers) buffer.groups.add(kept);
    this.#groups.set(key, kept);
    this.#recent.set(bindings, kept);
    this.counters.bind_groups_made++;
    return kept.group;
  }
}

/** @param {GPUBindGroupLayout} layout @param {readonly Binding[]} bindings */
const keyOf = (layout, bindings) =>
  bindings.reduce((text, { buffer, offset, size }) => `${text};${bound(buffer).id},${offset},${size}`, layout.label);

/** @param {GpuBuf} buffer of this layer */
const bound = (buffer) => /** @type {Bound & GpuBuf} */ (buffer);
