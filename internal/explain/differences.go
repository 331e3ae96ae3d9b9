package explain

import "attune.io/attune/recommender"

// Field is one value of a container's resources. Both sides are quantities.
type Field struct {
	// Name is the path under resources in a manifest, such as requests.cpu.
	Name string
	// Current is what the template sets; nil: nothing.
	Current *string
	// Target is what is recommended; nil: the value is left alone.
	Target *string
}

// Differences returns the values that differ from the target. A resource with a hold has none, and neither has a
// value without a target.
func (c Container) Differences() []Field {
	var different []Field
	for _, field := range c.fields() {
		if field.Target != nil && (field.Current == nil || *field.Current != *field.Target) {
			different = append(different, field)
		}
	}
	return different
}

// fields of the resources that are not held.
// They are requests and limits of CPU, then of memory.
func (c Container) fields() []Field {
	var fields []Field
	if !c.held(recommender.CPU) {
		fields = append(fields,
			Field{"requests.cpu", c.Current.CPURequest, c.Target.CPURequest},
			Field{"limits.cpu", c.Current.CPULimit, c.Target.CPULimit})
	}
	if !c.held(recommender.Memory) {
		fields = append(fields,
			Field{"requests.memory", c.Current.MemoryRequest, c.Target.MemoryRequest},
			Field{"limits.memory", c.Current.MemoryLimit, c.Target.MemoryLimit})
	}
	return fields
}

// held returns whether any hold stops the resource.
func (c Container) held(r recommender.Resource) bool {
	for _, hold := range c.Holds {
		if hold.Resource == r.String() {
			return true
		}
	}
	return false
}
