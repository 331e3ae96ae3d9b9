package inside

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/state"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// runPressure serves the containers' CPU pressure (PSI) under the names and
// labels cAdvisor gives it on cgroup v2. cAdvisor leaves it out on cgroup v1,
// although the kernel measures it in the unified hierarchy beside.
func runPressure(args []string) error {
	c, err := spec.Read(args[0])
	if err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	http.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		pods, err := client.CoreV1().Pods("").List(r.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		writePressure(w, measure(c.Name, pods.Items))
	})
	return http.ListenAndServe(spec.Pressure, nil)
}

// pressure is how long some or all of a container's tasks have waited for a CPU.
type pressure struct {
	labels     string
	some, full time.Duration
}

// measure leaves out containers that do not run or have just ended.
func measure(cluster string, pods []corev1.Pod) []pressure {
	var all []pressure
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			group, err := ContainerCgroup(cluster, &pod, status.ContainerID)
			if err != nil {
				continue
			}
			data, err := os.ReadFile(filepath.Join(state.CgroupDir, "unified", group, "cpu.pressure"))
			if err != nil {
				continue
			}
			p := pressure{labels: fmt.Sprintf("container=%q,id=%q,image=%q,name=%q,namespace=%q,node=%q,pod=%q",
				status.Name, "/"+group, status.Image, filepath.Base(group), pod.Namespace, pod.Spec.NodeName, pod.Name)}
			p.some, p.full = parsePressure(string(data))
			all = append(all, p)
		}
	}
	return all
}

// parsePressure reads the totals of a PSI file, which are in microseconds.
func parsePressure(file string) (some, full time.Duration) {
	for line := range strings.Lines(file) {
		var kind string
		var micros int64
		fields := strings.Fields(line)
		if len(fields) != 5 {
			continue
		}
		kind = fields[0]
		if _, err := fmt.Sscanf(fields[4], "total=%d", &micros); err != nil {
			continue
		}
		switch kind {
		case "some":
			some = time.Duration(micros) * time.Microsecond
		case "full":
			full = time.Duration(micros) * time.Microsecond
		}
	}
	return some, full
}

func writePressure(w io.Writer, all []pressure) {
	fmt.Fprintln(w, "# TYPE container_pressure_cpu_waiting_seconds_total counter")
	for _, p := range all {
		fmt.Fprintf(w, "container_pressure_cpu_waiting_seconds_total{%s} %g\n", p.labels, p.some.Seconds())
	}
	fmt.Fprintln(w, "# TYPE container_pressure_cpu_stalled_seconds_total counter")
	for _, p := range all {
		fmt.Fprintf(w, "container_pressure_cpu_stalled_seconds_total{%s} %g\n", p.labels, p.full.Seconds())
	}
}
