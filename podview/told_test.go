package podview

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

func TestTold(t *testing.T) {
	const mi = recommender.Amount(1) << 20
	ref := func(name, container, resource string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: container, Resource: resource}}}
	}
	value := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	for name, tc := range map[string]struct {
		c    corev1.Container
		want Told
	}{
		"nothing":              {corev1.Container{Env: []corev1.EnvVar{value("A", "b"), ref("CPUS", "", "limits.cpu")}, Args: []string{"-x"}}, Told{}},
		"limit":                {corev1.Container{Env: []corev1.EnvVar{ref("A", "", "limits.memory"), ref("B", "app", "limits.memory")}}, Told{Limit: "A"}},
		"limit and request":    {corev1.Container{Env: []corev1.EnvVar{ref("A", "app", "requests.memory"), ref("B", "app", "limits.memory")}}, Told{Limit: "B", Request: "A"}},
		"of another container": {corev1.Container{Env: []corev1.EnvVar{ref("A", "other", "limits.memory")}}, Told{}},
		"percentage":           {corev1.Container{Args: []string{"-XX:MaxRAMPercentage=70"}}, Told{Limit: "-XX:MaxRAMPercentage"}},
		"automemlimit":         {corev1.Container{Env: []corev1.EnvVar{value("AUTOMEMLIMIT", "0.8")}}, Told{Limit: "AUTOMEMLIMIT"}},
		"automemlimit is off":  {corev1.Container{Env: []corev1.EnvVar{value("AUTOMEMLIMIT", "off")}}, Told{}},
		"bytes":                {corev1.Container{Env: []corev1.EnvVar{value("GOMEMLIMIT", "1048576")}}, Told{Heap: mi, HeapBy: "GOMEMLIMIT"}},
		"MiB":                  {corev1.Container{Env: []corev1.EnvVar{value("GOMEMLIMIT", "3MiB")}}, Told{Heap: 3 * mi, HeapBy: "GOMEMLIMIT"}},
		"the largest":          {corev1.Container{Env: []corev1.EnvVar{value("JAVA_OPTS", "-Xmx5m -Xmx9M")}, Command: []string{"java", "-Xmx2m"}}, Told{Heap: 9 * mi, HeapBy: "-Xmx"}},
		"MaxHeapSize":          {corev1.Container{Command: []string{"java", "-XX:MaxHeapSize=1g"}}, Told{Heap: 1024 * mi, HeapBy: "-XX:MaxHeapSize"}},
		"Node":                 {corev1.Container{Args: []string{"--max-old-space-size=7"}}, Told{Heap: 7 * mi, HeapBy: "--max-old-space-size"}},
		"Node, old form":       {corev1.Container{Args: []string{"--max_old_space_size=7"}}, Told{Heap: 7 * mi, HeapBy: "--max_old_space_size"}},
		"no number":            {corev1.Container{Args: []string{"-Xmx$(HEAP)", "-Xmx", "-Xmx-1"}}, Told{}},
		"no machine has that":  {corev1.Container{Args: []string{"-Xmx99999999999999999999g"}}, Told{}},
		"at most plausible":    {corev1.Container{Args: []string{"-Xmx1099511627776g"}}, Told{Heap: Plausible, HeapBy: "-Xmx"}},
		"a long text":          {corev1.Container{Args: []string{strings.Repeat("-X", 1<<20), "-Xmx1m"}}, Told{Heap: mi, HeapBy: "-Xmx"}},
		"all":                  {corev1.Container{Env: []corev1.EnvVar{value("O", "-XX:MaxRAMPercentage=9 -Xmx2m"), ref("A", "", "limits.memory")}}, Told{Limit: "-XX:MaxRAMPercentage", Heap: 2 * mi, HeapBy: "-Xmx"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.c.Name = "app"
			of := func(c corev1.Container) Told {
				return ToldOf(&corev1.PodSpec{Containers: []corev1.Container{c}}, "app")
			}
			got := of(tc.c)
			if name == "all" { // the order of two names of the limit does not matter
				assert.NotEmpty(t, got.Limit)
				got.Limit = tc.want.Limit
			}
			assert.Equal(t, tc.want, got)
			short := corev1.Container{Name: "app", Env: MemoryVariables(&tc.c)}
			kept := of(short)
			if name == "all" {
				assert.NotEmpty(t, kept.Limit)
				kept.Limit = tc.want.Limit
			}
			assert.Equal(t, tc.want, kept, "the short form says the same")
			assert.Equal(t, short.Env, MemoryVariables(&short), "it stays as it is")
			assert.LessOrEqual(t, len(short.Env), 3)
			if got.Heap > 0 {
				text := tc.c.String()
				assert.True(t, MaySetHeap([]byte(text)))
			}
		})
	}
}

func TestQueueOf(t *testing.T) {
	one := func(key string) map[string]string { return map[string]string{key: "x"} }
	assert.Equal(t, Queue{}, QueueOf(one("app"), one("kueue.x-k8s.io"), false, false))
	assert.Equal(t, Kueue, QueueOf(one("kueue.x-k8s.io/queue-name"), nil, true, true))
	assert.Equal(t, Kueue, QueueOf(nil, one(KueueWorkload), false, false))
	assert.Equal(t, Queue{Name: "Volcano"}, QueueOf(nil, one("scheduling.k8s.io/group-name"), false, true))
	assert.Equal(t, Queue{Name: "the scheduling group"}, QueueOf(nil, nil, true, true))
	assert.Equal(t, Queue{Name: "the controller of its scheduling gates"}, QueueOf(nil, nil, false, true))
}
