/** What a page and the worker of its session say to each other. */
import { EngineError, errorFields } from "../engine/errors.js";

/** @import { Tensor } from "../sdk/tensor.js" */
/** @import { Progress } from "./store.js" */
/** A tensor on its way. @typedef {{type: string, data: any, dims: readonly number[]}} Parcel */
/** @typedef {{name: string, error: string, hint: string}} Failure */
/** A method of the worker, and what it takes. @typedef {{id: number, call: string, args: any[]}} Call */
/** @typedef {{id: number, value?: any, failure?: Failure} | {progress: Progress}} Answer */

/** @param {Record<string, Tensor>} tensors @returns {Record<string, Parcel>} */
export const parcels = (tensors) => Object.fromEntries(Object.entries(tensors).map(([name, { type, data, dims }]) => [name, { type, data, dims }]));

/** Their memory, each buffer once. @param {Record<string, Parcel>} tensors */
export const buffers = (tensors) => [...new Set(Object.values(tensors).map(({ data }) => data.buffer))].filter((buffer) => buffer instanceof ArrayBuffer);

/** @param {any} thrown @returns {Failure} */
export const toFailure = (thrown) => ({ name: thrown?.name ?? "Error", ...errorFields(thrown) });

/** @param {Failure} failure */
export const toError = ({ error, hint }) => new EngineError(error, hint);
