/** Bytes of Wasm memory that the page has made: the browser's own count leaves shared memory out. */

/** @type {WebAssembly.Memory[]} */
const made = [];

/** From now on every memory that is made, or exported by a module, is counted. */
export function watchMemories() {
  const { Memory, instantiate, instantiateStreaming } = WebAssembly;
  WebAssembly.Memory = class extends Memory {
    /** @param {WebAssembly.MemoryDescriptor} descriptor */
    constructor(descriptor) {
      super(descriptor);
      made.push(this);
    }
  };
  /** @param {any} result an instance, or a module with its instance */
  const noted = (result) => {
    for (const value of Object.values((result.instance ?? result).exports))
      if (value instanceof Memory && !made.includes(value)) made.push(value);
    return result;
  };
  Object.assign(WebAssembly, {
    instantiate: async (/** @type {any[]} */ ...args) => noted(await Reflect.apply(instantiate, WebAssembly, args)),
    instantiateStreaming: async (/** @type {any[]} */ ...args) => noted(await Reflect.apply(instantiateStreaming, WebAssembly, args)),
  });
}

/** Of all memories together, as they are now. */
export const memoryBytes = () => made.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
