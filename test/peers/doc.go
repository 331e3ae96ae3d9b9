// Package peers does the same work with attune and with VPA's own code, in the same run, so that ratios mean
// something on a busy machine. Its benchmarks are named <work>/attune and <work>/vpa; make bench prints
// their ratios.
//
// VPA's code is that of its recommender and admission controller, with its defaults. What needs an API
// server there (whose pod is this, which labels does its controller select) is answered for free.
package peers
