package explain

import "attune.io/attune/recommender"

// Field is one value of a container's resources.
type Field struct {
	// Name under resources in a manifest, such as requests.cpu.
	Name    string
	Current *string
	Target  *string
}

// Differences are the values that the container should have and has not. A resource that is held
// differs in nothing, and neither does one whose target leaves the value alone.
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

func (c Container) held(r recommender.Resource) bool {
	for _, hold := range c.Holds {
		if hold.Resource == r.String() {
			return true
		}
	}
	return false
}
