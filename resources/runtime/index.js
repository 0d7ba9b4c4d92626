/**
 * Sessions on bundles, for web pages: in the page or, with `env.wasm.proxy`, in a worker.
 *
 *     import { InferenceSession, Tensor } from "@nnjit/runtime";
 *     const session = await InferenceSession.create("/models/minilm/manifest.json", { onProgress: show });
 *     const outputs = await session.run({ input_ids: new Tensor("int64", ids, [1, ids.length]) });
 */
import { EngineError, script } from "../engine/errors.js";
import { env as settings, MANIFEST_VERSION, Tensor } from "../sdk/tensor.js";

export { EngineError, MANIFEST_VERSION, Tensor };

/** @import { InferenceSession as PageSession } from "../sdk/session.js" */
/** @import { Files } from "./files.js" */
/** @import { SessionOptions } from "./open.js" */
/** @import { ProxySession } from "./proxy.js" */
/** A session in the page or in a worker. @typedef {PageSession | ProxySession} Session */

/** Settings under the names of ONNX Runtime Web. */
export const env = Object.assign(settings, { wasm: Object.assign(settings.wasm, { proxy: false }) });

export const InferenceSession = {
  /**
   * Loads the engine, or what talks to it in a worker: a page has one of the two.
   * @param {string | URL | Files} source address of the manifest.json of a bundle, or its files by name
   * @param {SessionOptions} [options]
   * @returns {Promise<Session>}
   */
  async create(source, options = {}) {
    if (!env.wasm.proxy) return (await script(import("./open.js"))).open(source, options);
    const { numThreads } = env.wasm;
    const { ProxySession } = await script(import("./proxy.js"));
    return ProxySession.create(source, { numThreads, ...options });
  },
};

/**
 * Forgets kept files: those that no bundle names any more, with `true` all, or those of a bundle.
 * @param {boolean | string | URL} [what] the address of a manifest for those of its bundle
 * @returns {Promise<void>}
 */
export const forget = async (what = false) => (await script(import("./store.js"))).forget(what);
