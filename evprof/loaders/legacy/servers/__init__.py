"""Results of programs that measure a server from outside, or an engine as a whole: vLLM, SGLang, AIPerf."""
