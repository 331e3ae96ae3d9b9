package sim

import (
	"context"
	"time"
)

// Memory is what the containers' cgroups hold.
func (g gauge) Memory(_ context.Context, namespace string, pods []string, _ time.Duration, _ time.Time) (map[string]map[string]float64, error) {
	if err := g.ask(); err != nil {
		return nil, err
	}
	all := map[string]map[string]float64{}
	for _, name := range pods {
		pod := g.of.w.pod(namespace, name)
		if pod == nil {
			continue
		}
		all[name] = map[string]float64{}
		for _, c := range pod.Spec.Containers {
			all[name][c.Name] = float64(g.of.w.held(pod, c.Name))
		}
	}
	return all, nil
}
