package workload

// TooLargeAnnotation marks an object in the operator's caches of which more was written than they keep, so that something
// is missing that decisions rest on: it is left alone. No API server has it, and who writes it there has an object left
// alone as with the annotation attune.io/skip.
const TooLargeAnnotation = "attune.io/too-large"

// What the mark says: labels, or what says where pods may run, are left out, and the containers are all there; any other
// value, such as Cut, means that containers are left out.
const Text, Cut = "text", "containers"

// Incomplete: the annotations are of an object whose containers are not all known. Others that are too large are begun nothing
// with, and what was begun can be taken back.
func Incomplete(annotations map[string]string) bool {
	value, large := annotations[TooLargeAnnotation]
	return large && value != Text
}

// Large: the annotations are of an object that is too large.
func Large(annotations map[string]string) bool {
	_, large := annotations[TooLargeAnnotation]
	return large
}

// TooLarge reports whether the workload is left alone because of its size.
func (w Workload) TooLarge() bool { return Large(w.Annotations) }

// WhatIsTooLarge ends the sentence that says so.
const WhatIsTooLarge = "has more than the operator keeps of one object: 16 KiB of labels and of what says where its pods may run, 256 KiB of containers"
