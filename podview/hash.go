package podview

import (
	"hash/fnv"
)

// Hash of a name: it orders pods and workloads in a way that is the same in every pass, and favours none.
func Hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
