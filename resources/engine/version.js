/** Of NNJIT Studio: `nnjit_studio.__version__`, which a test compares with it. */
export const ENGINE_VERSION = "0.1.0";
