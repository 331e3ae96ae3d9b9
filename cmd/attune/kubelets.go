package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded"
)

// embed makes the source that scrapes kubelets, and has the leader run it. With a Prometheus server beside
// it, that is asked for what was before.
func (o *options) embed(mgr ctrl.Manager) error {
	tokens, err := o.scraperTokens(mgr.GetConfig())
	if err != nil {
		return err
	}
	verify := embedded.KubeletTLS{CAFile: o.kubelet.caFile, InsecureSkipVerify: o.kubelet.insecureSkipVerify}
	transport, err := embedded.Kubelets(mgr.GetConfig(), verify, tokens)
	if err != nil {
		return err
	}
	source := embedded.New(embedded.Options{
		Cluster: cluster{mgr.GetClient(), o.watched}, Transport: transport, Interval: o.usageInterval, Clock: clock.RealClock{},
		NodePressure: o.nodeLoadTaint,
		Log:          slog.New(logr.ToSlogHandler(ctrl.Log.WithName("usage"))),
		Metrics:      o.meters.embedded,
		Disk:         embedded.Disk{Dir: o.disk.dir, Retention: o.disk.retention, MaxBytes: o.disk.size.Value()},
	})
	o.own = source
	return mgr.Add(source)
}

// backfilled is the embedded source together with the server that knows what was before, if there is one.
func (o *options) backfilled() (usage.Source, error) {
	if o.prometheus.address == "" {
		return o.own, nil
	}
	past, err := o.ownServer(nil)
	if err != nil {
		return nil, err
	}
	return usage.Backfilled{Source: o.own, Since: o.own.Since, Past: measured{Client: past, meter: o.meters.usage}}, nil
}

// cluster answers from the caches what a scraper asks.
type cluster struct {
	cache   client.Reader
	watched namespaces
}

func (c cluster) Nodes(ctx context.Context) (nodes []embedded.Node, unusable []error, err error) {
	list := &corev1.NodeList{}
	if err := c.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		node, err := embedded.NodeOf(&list.Items[i])
		if err != nil {
			unusable = append(unusable, err)
			continue
		}
		nodes = append(nodes, node)
	}
	return nodes, unusable, nil
}

func (c cluster) Watched(ctx context.Context) (map[embedded.Pod]string, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	if err := c.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing recommendations: %w", err)
	}
	watched := map[embedded.Pod]string{}
	for i := range list.Items {
		for _, record := range list.Items[i].Status.Records {
			watched[embedded.Pod{Namespace: list.Items[i].Namespace, Name: record.PodName}] = record.Node
		}
	}
	return watched, nil
}

// Followed are the pods that their nodes size (strategy Node): how long they waited for CPU is part of their base.
func (c cluster) Followed(ctx context.Context) (map[embedded.Pod]string, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	if err := c.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing recommendations: %w", err)
	}
	followed := map[embedded.Pod]string{}
	for i := range list.Items {
		rec := &list.Items[i]
		if rec.Spec.Strategy != v1alpha1.StrategyNode || rec.Spec.Mode != v1alpha1.UpdateAuto {
			continue
		}
		pods, err := owners.Pods(ctx, c.cache, workload.IdentityOf(rec))
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			if pod.Spec.NodeName != "" {
				followed[embedded.Pod{Namespace: pod.Namespace, Name: pod.Name}] = pod.Spec.NodeName
			}
		}
	}
	return followed, nil
}

func (c cluster) NodeOf(ctx context.Context, pod embedded.Pod) (string, error) {
	if !c.watched.has(pod.Namespace) {
		return "", nil
	}
	found := &corev1.Pod{}
	if err := c.cache.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}, found); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return found.Spec.NodeName, nil
}
