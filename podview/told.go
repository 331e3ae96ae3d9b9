package podview

import (
	"bytes"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

// Told is what a process learns about its memory when it starts, and keeps to until it restarts: an environment
// variable does not follow a resize in place. The zero value: it learns nothing.
type Told struct {
	// Limit and Request name the variable or flag by which it learns its memory limit or request; empty: none does. A
	// heap that is a percentage of the limit counts as Limit.
	Limit, Request string
	// Heap is a heap size or soft memory limit that is set as a number, in bytes; 0: none. HeapBy is its variable or flag.
	Heap   recommender.Amount
	HeapBy string
}

const (
	goMemory     = "GOMEMLIMIT"            // Go's soft memory limit: bytes, with a suffix such as MiB
	autoMemory   = "AUTOMEMLIMIT"          // share of the limit, read by automemlimit
	javaHeap     = "-Xmx"                  // bytes, with a suffix such as m
	javaHeapSize = "-XX:MaxHeapSize="      // the same
	javaPercent  = "-XX:MaxRAMPercentage=" // percentage of the limit
	nodeHeap     = "--max-old-space-size=" // MiB
	nodeHeapOld  = "--max_old_space_size=" // the same
)

// heapFlags are the flags that set a heap size, with the unit of a number without suffix.
var heapFlags = []struct {
	flag string
	unit recommender.Amount
}{{javaHeap, 1}, {javaHeapSize, 1}, {nodeHeap, 1 << 20}, {nodeHeapOld, 1 << 20}}

// MaySetHeap reports whether an environment or arguments, as JSON, may set a heap size (Told.Heap). It is cheap, and true
// for every text that does.
func MaySetHeap(text []byte) bool {
	for _, word := range heapWords {
		if bytes.Contains(text, word) {
			return true
		}
	}
	return false
}

var heapWords = [...][]byte{[]byte(goMemory), []byte(javaHeap), []byte("MaxHeapSize"), []byte("old_space"), []byte("old-space")}

// ToldOf returns what the processes of a pod are told about the memory of a container. A variable may take the amount of
// another container; a value from a ConfigMap or Secret is not known.
func ToldOf(spec *corev1.PodSpec, container string) (t Told) {
	for _, of := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range of {
			c := &of[i]
			for j := range c.Env {
				v := &c.Env[j]
				if ref, name := memoryRef(v), c.Name; ref != nil {
					if ref.ContainerName != "" {
						name = ref.ContainerName
					}
					if name == container {
						t.refers(v.Name, ref.Resource)
					}
				} else if c.Name == container {
					t.AddVariable(v.Name, v.Value)
				}
			}
			if c.Name == container {
				t.AddArguments(c.Command)
				t.AddArguments(c.Args)
			}
		}
	}
	return t
}

// memoryRef returns the reference of a variable to memory of a container, or nil.
func memoryRef(v *corev1.EnvVar) *corev1.ResourceFieldSelector {
	if v.ValueFrom == nil || v.ValueFrom.ResourceFieldRef == nil || !strings.HasSuffix(v.ValueFrom.ResourceFieldRef.Resource, ".memory") {
		return nil
	}
	return v.ValueFrom.ResourceFieldRef
}

func (t *Told) refers(variable, resource string) {
	switch {
	case resource == "limits.memory" && t.Limit == "":
		t.Limit = variable
	case resource == "requests.memory" && t.Request == "":
		t.Request = variable
	}
}

// AddVariable adds a variable with a value of its own.
func (t *Told) AddVariable(name, value string) {
	switch {
	case value == "" || value == "off":
	case name == goMemory:
		if bytes, _ := leadingSize(value, 1); bytes > t.Heap {
			t.Heap, t.HeapBy = bytes, goMemory
		}
	case name == autoMemory && t.Limit == "":
		t.Limit = autoMemory
	default:
		t.addText(value)
	}
}

// AddArguments adds a command or its arguments.
func (t *Told) AddArguments(texts []string) {
	for _, text := range texts {
		t.addText(text)
	}
}

// addText finds flags in a text, such as the value of JAVA_TOOL_OPTIONS or a line of a shell.
func (t *Told) addText(text string) {
	if !strings.Contains(text, "-") {
		return
	}
	if t.Limit == "" && strings.Contains(text, javaPercent) {
		t.Limit = strings.TrimSuffix(javaPercent, "=")
	}
	for _, f := range heapFlags {
		for rest := text; ; {
			_, after, found := strings.Cut(rest, f.flag)
			if !found {
				break
			}
			if bytes, _ := leadingSize(after, f.unit); bytes > t.Heap {
				t.Heap, t.HeapBy = bytes, strings.TrimSuffix(f.flag, "=")
			}
			rest = after
		}
	}
}

// leadingSize reads a number with a suffix such as k, m, MiB or GiB at the start of a text, in bytes. A number without a
// suffix has the given unit. It is false if the text starts with no number, or one that no machine has.
func leadingSize(text string, unit recommender.Amount) (recommender.Amount, bool) {
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	if err != nil || recommender.Amount(n) > Plausible {
		return 0, false
	}
	if digits < len(text) {
		if power := strings.IndexByte("kmgt", text[digits]|0x20); power >= 0 {
			unit = 1 << (10 * (power + 1))
		}
	}
	return min(recommender.Amount(n), Plausible/unit) * unit, true
}

// MemoryVariables returns a short environment for which ToldOf returns the same as for the environment and arguments of
// the container. Caches keep it in their place.
func MemoryVariables(c *corev1.Container) (kept []corev1.EnvVar) {
	var own Told
	known := map[corev1.ResourceFieldSelector]bool{}
	for i := range c.Env {
		v := &c.Env[i]
		ref := memoryRef(v)
		if ref == nil {
			own.AddVariable(v.Name, v.Value)
			continue
		}
		short := corev1.ResourceFieldSelector{ContainerName: ref.ContainerName, Resource: ref.Resource}
		if !known[short] {
			known[short] = true
			kept = append(kept, corev1.EnvVar{Name: v.Name, ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &short}})
		}
	}
	own.AddArguments(c.Command)
	own.AddArguments(c.Args)
	switch own.Limit {
	case "":
	case autoMemory:
		kept = append(kept, corev1.EnvVar{Name: autoMemory, Value: "1"})
	default:
		kept = append(kept, corev1.EnvVar{Name: own.Limit, Value: javaPercent})
	}
	heap := strconv.FormatInt(int64(own.Heap), 10)
	switch own.HeapBy {
	case "":
	case goMemory:
		kept = append(kept, corev1.EnvVar{Name: goMemory, Value: heap})
	case javaHeap:
		kept = append(kept, corev1.EnvVar{Name: javaHeap, Value: javaHeap + heap})
	case strings.TrimSuffix(javaHeapSize, "="):
		kept = append(kept, corev1.EnvVar{Name: own.HeapBy, Value: javaHeapSize + heap})
	default: // whole MiB
		kept = append(kept, corev1.EnvVar{Name: own.HeapBy, Value: own.HeapBy + "=" + strconv.FormatInt(int64(own.Heap>>20), 10)})
	}
	return kept
}
