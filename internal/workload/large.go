package workload

// TooLargeAnnotation marks an object in the operator's caches of which more was written than the caches keep, so
// that something is missing on which decisions rest. The caches set it when they trim an object; the API server
// does not have it. A user who writes it on an object has the object left alone, as with attune.io/skip.
const TooLargeAnnotation = "attune.io/too-large"

// Values of TooLargeAnnotation. Text: labels, or fields that say where pods may run, are missing, and all
// containers are there. Any other value, such as Cut: containers are missing.
const Text, Cut = "text", "containers"

// Incomplete reports whether the annotations are of an object whose containers are not all known. With other
// objects that are too large nothing is begun, but what was begun can be taken back.
func Incomplete(annotations map[string]string) bool {
	value, large := annotations[TooLargeAnnotation]
	return large && value != Text
}

// Large reports whether the annotations are of an object that is too large.
func Large(annotations map[string]string) bool {
	_, large := annotations[TooLargeAnnotation]
	return large
}

// TooLarge reports whether the workload is left alone because of its size.
func (w Workload) TooLarge() bool { return Large(w.Annotations) }

// WhatIsTooLarge ends the message about an object that is too large.
const WhatIsTooLarge = "has more than the operator keeps of one object: 16 KiB of labels and of what says where its pods may run, 256 KiB of containers"
