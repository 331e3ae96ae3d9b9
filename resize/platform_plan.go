package resize

import (
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// qosChange refuses a plan that would change the pod's class of quality of service, which the API server does not
// allow (KEP-1287).
func qosChange(s situation, p Plan) *Refusal {
	if before, after := podview.ClassOf(s.pod), podview.QOSClass(p.Apply(s.pod)); before != after {
		return Refuse(ReasonQOSClass, "the pod would become %s, and a resize may not change its class %s; requests and limits must move together", after, before)
	}
	return nil
}

// outsidePodLevel keeps the sum of the containers' requests, and each container's limit, within the pod's own
// resources.
func outsidePodLevel(s situation, p Plan) *Refusal {
	if !podview.HasPodLevelResources(s.pod) {
		return nil
	}
	pod := podview.ReadSpec(*s.pod.Spec.Resources)
	total := podview.ContainerRequests(p.Apply(s.pod))
	for _, r := range recommender.Resources {
		if pod[r].Request > 0 && total[r] > pod[r].Request {
			return Refuse(ReasonPodLevelResources, "the containers would request %s of %s, more than the pod's own %s",
				recommender.Format(r, total[r]), r, recommender.Format(r, pod[r].Request))
		}
		for _, m := range p.Moves {
			if pod[r].Limit > 0 && m.To[r].Limit > pod[r].Limit {
				return Refuse(ReasonPodLevelResources, "container %s would have a %s limit of %s, above the pod's own %s",
					m.Container, r, recommender.Format(r, m.To[r].Limit), recommender.Format(r, pod[r].Limit))
			}
		}
	}
	return nil
}

// beyondNode refuses a pod that alone, with overhead, would request more than its node has. The API server checks
// the same from 1.36 on (PodResizeValidator); an older kubelet answers Infeasible.
func beyondNode(s situation, p Plan) *Refusal {
	needs := podview.Requests(p.Apply(s.pod))
	for _, r := range recommender.Resources {
		if has := s.caps.Allocatable[r]; has > 0 && needs[r] > has {
			return Refuse(ReasonNodeCapacity, "the pod would request %s of %s, and node %s has %s in all",
				recommender.Format(r, needs[r]), r, s.pod.Spec.NodeName, recommender.Format(r, has))
		}
	}
	return nil
}
