package workload

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/climb"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
)

const (
	// endsLast is the age up to which terminations are examined. The result is stored in the status.
	endsLast = 2 * time.Minute
	// eventBefore is how long before a termination with exit code 137 an OOM event explains it.
	eventBefore = time.Minute
	// sampleBefore is how long before a kill the last sample tells what the container used.
	sampleBefore = 30 * time.Second
)

// observeKills adds to recent OOM kills what tells a kill of the node from one at the container's limit: the last
// sample before it, and how many workloads were killed on the node.
func (c *Controller) observeKills(ctx context.Context, w *tuning.View) {
	for _, pod := range w.Pods {
		for _, k := range podview.OOMKills(pod) {
			if w.Now.Sub(k.At).Abs() > endsLast {
				continue
			}
			// The samples of the run are soon replaced by those of the next one, and its last may come late.
			used, _ := c.memory.samples.usedAtKill.read(k.Evidence, endsLast, w.Now)
			if used = max(used, lastBefore(w.Usage.Climbs[pod.UID][k.Container].Samples, k)); used > 0 {
				c.memory.samples.usedAtKill.record(k.Evidence, used, endsLast, w.Now)
				podview.SetIn(&w.Usage.Ends, k.Evidence, harm.KillFacts{Used: used, Workloads: c.killedOn(ctx, pod.Spec.NodeName, k.At)})
			}
		}
	}
}

// lastBefore returns the newest sample of a killed run within sampleBefore of the kill, in bytes; 0: there is none. Times
// of a run have whole seconds. So a sample within the second of the kill may be of the next run: it counts only if it is
// higher.
func lastBefore(samples []climb.Sample, k podview.OOM) (used recommender.Amount) {
	for _, s := range samples {
		switch ago := k.At.Sub(s.At); {
		case s.At.Before(k.Started):
		case ago >= 0 && ago <= sampleBefore:
			used = s.Bytes
		case ago > -time.Second && used > 0:
			used = max(used, s.Bytes)
		}
	}
	return used
}

// killedOn counts the workloads with OOM-killed containers on a node within harm.NodeKillWithin that includes a time; 0 if
// the pods cannot be listed. A pod without a workload counts as one.
func (c *Controller) killedOn(ctx context.Context, node string, at time.Time) (most int) {
	pods, err := lookup.PodsOnNode(ctx, c.Client, node)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Cannot list the pods of a node; its OOM kills count as kills at the containers' limits", "node", node, "cause", err.Error())
		return 0
	}
	killed := map[time.Time]map[workload.Identity]bool{}
	for _, pod := range pods {
		for _, k := range podview.OOMKills(pod) {
			if k.At.Sub(at).Abs() > harm.NodeKillWithin {
				continue
			}
			id, owned := workload.OwnerOf(pod, pod.Namespace, lookup.Owners{Reader: c.Client})
			if !owned {
				id = workload.Identity{Namespace: pod.Namespace, Name: string(pod.UID)}
			}
			// from is the start of each span of NodeKillWithin, in seconds, with both kills.
			for from := at.Add(-harm.NodeKillWithin); !from.After(at); from = from.Add(time.Second) {
				if after := k.At.Sub(from); after >= 0 && after <= harm.NodeKillWithin {
					of := killed[from]
					podview.SetIn(&of, id, true)
					killed[from] = of
					most = max(most, len(of))
				}
			}
		}
	}
	return most
}

// measureEnds adds the OOM events of containers that recently ended with exit code 137 for another reason. If the
// source does not answer, such an end is no OOM kill. A server that a policy names is not asked, because it could invent
// kills, and each teaches a minimum: the operator's own source is.
func (m measurer) measureEnds(ctx context.Context, w *tuning.View) {
	windows, ends := map[string]time.Duration{}, map[string][2]string{}
	for _, pod := range w.Pods {
		for container, status := range podview.Statuses(pod) {
			for _, t := range podview.Terminations(status) {
				if age := w.Now.Sub(t.FinishedAt.Time); t.ExitCode == podview.Sigkill && t.Reason != podview.OOMKilled && age.Abs() <= endsLast {
					windows[pod.Name] = max(windows[pod.Name], max(age, 0)+eventBefore)
					ends[podview.Evidence(t)] = [2]string{pod.Name, container}
				}
			}
		}
	}
	if len(ends) == 0 || m.gauges == nil {
		return
	}
	settings := w.Policy.Settings
	if settings.Source.OfPolicy {
		settings.Source = settings.Source.Own()
	}
	gauge, err := m.gauges(settings)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	events, err := gauge.OOMKills(ctx, w.Rec.Namespace, windows, w.Now)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Cannot read OOM events; containers that ended with exit code 137 are not OOM-killed", "cause", err.Error())
	}
	for evidence, of := range ends {
		podview.SetIn(&w.Usage.Ends, evidence, harm.KillFacts{Events: events[of[0]][of[1]]})
	}
}
