/** What a page has of a session before one is there: tensors, settings, the version of bundles. */
import { ARRAYS } from "../engine/arrays.js";
import { EngineError } from "../engine/errors.js";
import { ENGINE_VERSION } from "../engine/version.js";

/** Of bundles that this engine reads. */
export const MANIFEST_VERSION = 2;

/** Dtypes by ONNX Runtime's names. @type {Record<string, string>} */
export const DTYPES = { float32: "f32", float16: "f16", int64: "i64", int32: "i32", int8: "i8", uint8: "u8", bool: "bool" };
export const NAMES = Object.fromEntries(Object.entries(DTYPES).map(([name, dtype]) => [dtype, name]));

/** Settings under the names of ONNX Runtime Web; `numThreads: 0` chooses by the machine. */
export const env = { versions: { nnjit: ENGINE_VERSION }, wasm: { numThreads: 1 } };

export class Tensor {
  /**
   * `new Tensor(type, data, dims)`, or `new Tensor(data, dims)` with a typed array.
   * @param {any} typeOrData
   * @param {any} dataOrDims
   * @param {readonly number[]} [dims]
   */
  constructor(typeOrData, dataOrDims, dims) {
    const named = typeof typeOrData === "string";
    const type = named ? typeOrData : typeOf(typeOrData);
    const given = named ? dataOrDims : typeOrData;
    const values = type === "float16" ? bitsOf(given) : given;
    if (!(type in DTYPES)) throw new EngineError(`The tensor type "${type}" is not supported.`, `Use one of ${Object.keys(DTYPES).join(", ")}.`);
    const Typed = ARRAYS[DTYPES[type]];
    if (ArrayBuffer.isView(values) && !(values instanceof Typed))
      throw new EngineError(`A ${type} tensor takes a ${Typed.name}, not a ${values.constructor.name}.`);
    /** @type {string} */
    this.type = type;
    /** @type {any} */
    this.data = values instanceof Typed ? values : Typed.from(values, type === "int64" ? BigInt : Number);
    /** @type {readonly number[]} */
    this.dims = [...((named ? dims : dataOrDims) ?? [this.data.length])];
    if (this.dims.reduce((n, d) => n * d, 1) !== this.data.length)
      throw new EngineError(`A tensor of shape [${this.dims}] cannot hold ${this.data.length} values.`);
  }

  get size() {
    return this.data.length;
  }

  get location() {
    return "cpu";
  }

  async getData() {
    return this.data;
  }

  /** @param {readonly number[]} dims */
  reshape(dims) {
    return new Tensor(this.type, this.data, dims);
  }

  /**
   * Gives the data up, as in ONNX Runtime: nothing may read it any more. The memory of
   * a session's output is used again by a later run, which saves much of a short run's time.
   */
  dispose() {
    disposals.get(this)?.();
    disposals.delete(this);
    this.data = new this.data.constructor(0);
  }
}

/** What else happens when a tensor is disposed of. @type {WeakMap<Tensor, () => void>} */
export const disposals = new WeakMap();

/** @param {unknown} data */
function typeOf(data) {
  if (isHalf(data)) return "float16";
  // bool shares its array with uint8 and has to be named
  return Object.keys(DTYPES).find((name) => data instanceof ARRAYS[DTYPES[name]]) ?? typeof data;
}

const { Float16Array } = /** @type {any} */ (globalThis);

/** @param {unknown} data */
const isHalf = (data) => Float16Array && data instanceof Float16Array;

/** Halves as their bits, which are what kernels read. @param {any} values */
function bitsOf(values) {
  if (ArrayBuffer.isView(values) && !isHalf(values)) return values;
  if (!Float16Array) throw new EngineError("A float16 tensor takes a Uint16Array in this browser.");
  const { buffer, byteOffset, length } = isHalf(values) ? values : Float16Array.from(values);
  return new Uint16Array(buffer, byteOffset, length);
}
