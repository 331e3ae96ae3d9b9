package resize

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// withoutExcluded removes containers that the policy excludes (excludedContainers, or mode Off in containerPolicies).
func withoutExcluded(_ *corev1.Pod, p Plan, in GateInput) Plan {
	return narrowed(p, func(m Move) (recommender.Size, *Refusal) {
		if !in.Rules.Excludes(m.Container) {
			return m.To, nil
		}
		return m.From, Refuse(ReasonExcluded, "the policy excludes the container")
	})
}

// withoutUncontrolled leaves the resources as they are that the policy does not size (controlledResources). Reverts and
// the end of a boost restore what attune changed before, so they go on.
func withoutUncontrolled(_ *corev1.Pod, p Plan, in GateInput) Plan {
	if len(in.Rules.Containers) == 0 {
		return p
	}
	for _, r := range recommender.Resources {
		p = narrowed(p, func(m Move) (recommender.Size, *Refusal) {
			field := in.Rules.Of(m.Container).Uncontrolled[r]
			if field == "" {
				return m.To, nil
			}
			to := m.To
			to[r] = m.From[r]
			return to, Refuse(ReasonNotControlled, "%s does not name %s", field, r)
		})
	}
	return p
}

// withoutHeld leaves an HPA's scaling resource unchanged: another request would change its set point, and so the number
// of replicas. A request within the range that keeps the number passes. Memory in an answer to an OOM kill passes: it
// raises the limit, and for a killed Guaranteed pod also the request.
func withoutHeld(_ *corev1.Pod, p Plan, in GateInput) Plan {
	for _, r := range recommender.Resources {
		if p.Urgent && r == recommender.Memory {
			continue
		}
		p = narrowed(p, func(m Move) (recommender.Size, *Refusal) {
			held, kept, waits := hpaOf(in.Workload.HPA, m.Container, r)
			if waits != "" && m.To[r].Request != m.From[r].Request {
				to := m.To
				to[r] = m.From[r]
				return to, RefuseForNow(ReasonHPA, "%s", waits)
			}
			if held == "" || kept != nil && (kept.Contains(m.To[r].Request) || m.To[r].Request == m.From[r].Request) {
				return m.To, nil
			}
			to := m.To
			to[r] = m.From[r]
			if kept != nil {
				return to, Refuse(ReasonHPA, "%s keeps the number of replicas only with a %s request from %s%s, not with %s",
					held, r, recommender.Format(r, kept.Least), upTo(r, kept.Most), recommender.Format(r, m.To[r].Request))
			}
			return to, Refuse(ReasonHPA, "%s scales on the utilization: another request would change the number of replicas. Use averageValue in the HPA", held)
		})
	}
	return p
}

// targetSoon refuses a plan of which a request waits a moment for the target of an HPA. If the rest were sent now, that
// request would have to wait for the observation and the cooldown of this resize.
func targetSoon(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	if !in.Workload.TargetSoon {
		return nil
	}
	return podview.FirstIn(p.LeftOut, func(r *Refusal) bool { return r.Reason == ReasonHPA && r.Transient })
}

// withinKept is withoutHeld again: a LimitRange may have moved a request out of the range that keeps the number of
// replicas.
func withinKept(pod *corev1.Pod, p Plan, in GateInput) Plan { return withoutHeld(pod, p, in) }

// withoutScaledRaises raises no request on which an HPA scales while the last such raise of the pod was withdrawn lately
// (NotInSync). A restore of original or template resources still raises limits, for which a node needs no room.
func withoutScaledRaises(pod *corev1.Pod, p Plan, in GateInput) Plan {
	row := podview.FirstIn(in.Status.Tries, func(t *v1alpha1.Try) bool {
		return t.What == v1alpha1.TryResize && t.Reason == ReasonHPASync && concerns(*t, pod) && in.Now.Before(t.Until.Time)
	})
	if row == nil {
		return p
	}
	return narrowed(p, func(m Move) (recommender.Size, *Refusal) {
		to := m.To
		for _, r := range recommender.Resources {
			if !in.Workload.ScaledOn.Has(m.Container, r) || to[r].Request <= m.From[r].Request {
				continue
			}
			to[r].Request = m.From[r].Request
			if !Restores(p.Wave) || m.From[r].Request == m.From[r].Limit || to[r].Limit < m.From[r].Request {
				to[r] = m.From[r]
			}
		}
		return to, waitUntil(row.Until.Time, ReasonHPASync, "node %s did not carry out the last raise within the sync period of HorizontalPodAutoscalers, which scale on the request. attune tries again after %s: %s",
			pod.Spec.NodeName, clock(row.Until), row.Message)
	})
}

// withoutFailedLimits keeps the memory limits of the workload after a decrease failed because of the containers' usage
// (page cache included). Each retry would leave a container that crashes meanwhile with the lower limit.
func withoutFailedLimits(_ *corev1.Pod, p Plan, in GateInput) Plan {
	i := slices.IndexFunc(in.Status.Tries, func(t v1alpha1.Try) bool {
		return t.What == v1alpha1.TryMemoryLimit && in.Now.Before(t.Until.Time)
	})
	if i < 0 {
		return p
	}
	return narrowed(p, func(m Move) (recommender.Size, *Refusal) {
		return WithoutMemoryLimitDecrease(m), Refuse(ReasonMemoryInUse,
			"a memory limit of the workload could not be lowered recently; the limit stays until %s", clock(in.Status.Tries[i].Until))
	})
}

// childKillRest is how long after a run in which a child process was OOM-killed the memory of its container stays.
const childKillRest = 24 * time.Hour

// withoutChildKills lowers no memory of a container within childKillRest of the end of such a run: its memory was short,
// although the container was not killed.
func withoutChildKills(pod *corev1.Pod, p Plan, in GateInput) Plan {
	if !anyMove(p, func(m Move) bool { return m.LowersOf(recommender.Memory) }) {
		return p
	}
	statuses := podview.Statuses(pod)
	return narrowed(p, func(m Move) (recommender.Size, *Refusal) {
		for _, t := range podview.Terminations(statuses[m.Container]) {
			if until := t.FinishedAt.Add(childKillRest); podview.ChildKilled(t) && in.Now.Before(until) {
				to := m.To
				to[recommender.Memory] = withoutDecreases(m)[recommender.Memory]
				return to, waitUntil(until, ReasonChildKilled, "the memory of container %s is not lowered before %s: a child process was OOM-killed in the run that ended at %s. Check the memory of the child processes",
					m.Container, until.UTC().Format(time.RFC3339), clock(t.FinishedAt))
			}
		}
		return m.To, nil
	})
}

// withoutConsolidation lowers nothing where Karpenter would undo it. A node whose pods request less looks empty, so
// Karpenter removes it; pods that are not sized at admission then start at the size of their template, on a new node.
func withoutConsolidation(_ *corev1.Pod, p Plan, in GateInput) Plan {
	if in.Namespace.NotSized == "" || !in.Node.Karpenter {
		return p
	}
	return narrowed(p, func(m Move) (recommender.Size, *Refusal) {
		to := withoutDecreases(m)
		if to == m.To {
			return m.To, nil
		}
		return to, Refuse(ReasonNewPodsNotSized, "Karpenter would replace the pod by one of the template's size, because new pods are not sized: %s. Let attune size new pods too", in.Namespace.NotSized)
	})
}

// OfKarpenter reports whether Karpenter starts and removes the node. A node that is not known is not Karpenter's.
func OfKarpenter(node *corev1.Node) bool {
	return node != nil && node.Labels["karpenter.sh/nodepool"] != ""
}

// hpaOf returns the HorizontalPodAutoscaler that blocks the resource, or "", and the range in which it does not. The entry with the name "" applies to
// every container.
func hpaOf(holds map[string]Held, container string, r recommender.Resource) (by string, kept *recommender.Kept, waits string) {
	for _, name := range []string{container, ""} {
		if held := holds[name]; held.Of[r] {
			return "HorizontalPodAutoscaler " + held.By, held.Kept[r], held.Waits[r]
		}
	}
	return "", nil, ""
}

// upTo writes the end of a range; empty: it has none.
func upTo(r recommender.Resource, most recommender.Amount) string {
	if most == 0 {
		return " up"
	}
	return " to " + recommender.Format(r, most)
}

// narrowed applies a narrowing to every move and records the removed changes in LeftOut.
func narrowed(p Plan, narrow func(Move) (recommender.Size, *Refusal)) Plan {
	moves := make([]Move, 0, len(p.Moves))
	left := append([]Refusal{}, p.LeftOut...)
	for _, m := range p.Moves {
		to, refusal := narrow(m)
		if to != m.To && refusal != nil {
			refusal.Container = m.Container
			left = append(left, *refusal)
		}
		m.To = to
		moves = append(moves, m)
	}
	p.Moves, p.LeftOut = moves, left
	return p
}
