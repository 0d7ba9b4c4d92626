/** Sees every Wasm instance that is made in this thread, whoever makes it. */

/**
 * @callback Seen
 * @param {WebAssembly.Instance} instance
 * @param {WebAssembly.Imports} [imports]
 */

/**
 * Calls `seen` with each instance from now on. What `seen` throws stays here.
 * @param {Seen} seen
 */
export function watchInstances(seen) {
  const { Instance, instantiate, instantiateStreaming } = WebAssembly;
  /** @type {Seen} */
  const tell = (instance, imports) => {
    try {
      seen(instance, imports);
    } catch (e) {
      console.warn("A runtime runs as it is, for its table cannot be used.", e);
    }
  };
  const watched = (/** @type {Function} */ make) => async (/** @type {any} */ source, /** @type {WebAssembly.Imports} */ imports, /** @type {any[]} */ ...rest) => {
    const made = await make.call(WebAssembly, source, imports, ...rest);
    tell(made.instance ?? made, imports);
    return made;
  };
  const construct = new Proxy(Instance, {
    construct(target, given, newTarget) {
      const made = Reflect.construct(target, given, newTarget);
      tell(made, given[1]);
      return made;
    },
  });
  Object.assign(WebAssembly, {
    Instance: construct,
    instantiate: watched(instantiate),
    instantiateStreaming: watched(instantiateStreaming),
  });
}
