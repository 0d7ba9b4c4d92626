/** An error with its next step; it crosses worker and link as `{error, hint}`. */
export class EngineError extends Error {
  /**
   * @param {string} error what failed, on which object: one sentence
   * @param {string} [hint] what to do next: one sentence, may be empty
   */
  constructor(error, hint = "") {
    super(hint ? `${error} ${hint}` : error);
    this.name = "EngineError";
    this.error = error;
    this.hint = hint;
  }
}

/**
 * `code` and `workload` are those of a GPU's error (docs/webgpu.md).
 * @param {unknown} thrown
 * @returns {{error: string, hint: string, code?: string, workload?: string}}
 */
export function errorFields(thrown) {
  if (thrown instanceof EngineError) {
    const { error, hint, code, workload } = /** @type {EngineError & {code?: string, workload?: string}} */ (thrown);
    return { error, hint, ...(code ? { code } : {}), ...(workload ? { workload } : {}) };
  }
  return { error: thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown), hint: "" };
}

/**
 * A script of the engine that is loaded where it is needed.
 * @template T
 * @param {Promise<T>} loading
 * @returns {Promise<T>}
 */
export const script = (loading) =>
  loading.catch((e) => {
    throw e instanceof EngineError ? e : new EngineError(`A script of the engine could not be loaded: ${/** @type {Error} */ (e).message}.`, "Load the page again.");
  });
