package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/api/resource"
)

// garbagePercent is GOGC: how much garbage may be kept, in percent of the live memory. Most live memory is caches
// and histories, which change slowly, so more frequent collection costs little CPU time and saves much memory.
const garbagePercent = 50

// memoryVariable is the environment variable with the container's memory limit, as a quantity. The chart sets it;
// where it is absent, the limit is not known.
const memoryVariable = "MEMORY_LIMIT"

// sparing configures the garbage collector to use little memory, and to work harder near the container's limit.
// The variables GOGC and GOMEMLIMIT of Go take precedence.
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

// memoryLimit returns the container's memory limit in bytes; 0 where it is not known. An error names the variable.
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

// historyBytes returns how many bytes histories may take: a third of the memory limit, since caches and answers in
// flight take the rest. 0: the limit is not known.
func historyBytes() int64 {
	limit, err := memoryLimit()
	if err != nil {
		return 0 // sparing has said so
	}
	return limit / 3
}

// mostReviewBytes bounds what all reviews in flight take together, in bytes: some hundreds of usual ones. Where the memory
// limit is small, they take an eighth of it.
const mostReviewBytes = 64 << 20

// partOfLimit returns how many bytes a store may take: a part of the memory limit, such as a sixteenth, and most of them at most.
func partOfLimit(part, most int) int {
	limit, err := memoryLimit()
	if err != nil || limit == 0 {
		return most
	}
	return int(min(limit/int64(part), int64(most)))
}
