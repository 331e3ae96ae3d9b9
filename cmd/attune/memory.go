package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/api/resource"
)

// garbagePercent of what is kept may be garbage before it is collected. Most of what is kept is caches and
// histories, which change slowly: collecting them more often costs little time and saves a lot of memory.
const garbagePercent = 50

// memoryVariable holds the container's own memory limit, as a quantity; absent: it is not known.
const memoryVariable = "MEMORY_LIMIT"

// sparing has the runtime keep little garbage, and none to speak of near the container's limit. Go's own variables
// for both count for more.
func sparing() error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	limit, err := memoryLimit()
	if err != nil || limit == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return err
	}
	// A tenth is left for what the runtime does not manage, such as the pages of the program and of files.
	debug.SetMemoryLimit(limit / 10 * 9)
	return nil
}

// memoryLimit is the container's own, in bytes; 0: it is not known.
func memoryLimit() (int64, error) {
	limit := os.Getenv(memoryVariable)
	if limit == "" {
		return 0, nil
	}
	bytes, err := resource.ParseQuantity(limit)
	if err != nil || bytes.Sign() <= 0 {
		return 0, fmt.Errorf("%s: %q is no amount of memory, such as 512Mi", memoryVariable, limit)
	}
	return bytes.Value(), nil
}

// historyBytes is how much of the memory limit histories may take: a third, as the caches of the cluster's objects and
// what is on its way take the rest. 0: the limit is not known.
func historyBytes() int64 {
	limit, err := memoryLimit()
	if err != nil {
		return 0 // sparing has said so
	}
	return limit / 3
}

// mostReviewBytes is what reviews in flight take together at most: some hundreds of usual ones.
const mostReviewBytes = 64 << 20

// reviewBytes is how much of the memory limit reviews in flight may take: an eighth.
func reviewBytes() int64 {
	limit, err := memoryLimit()
	if err != nil || limit == 0 {
		return mostReviewBytes
	}
	return min(limit/8, mostReviewBytes)
}
