package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/apiserver"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/test/plane"
)

func init() { ctrl.SetLogger(logr.Discard()) }

// site is an API server with its nodes, what they used, and the operator.
type site struct {
	env      *envtest.Environment
	config   *rest.Config
	client   client.Client
	history  *history
	server   *httptest.Server
	operator *operator
	parts    []*part
	// ended are called in the reverse order.
	ended []func() error
}

// part is a namespace with its nodes; one goroutine at a time plays it.
type part struct {
	namespace string
	mutex     sync.Mutex
	plane     *plane.Plane
	nodes     []*kubelet.Node
}

// atOnce is how many namespaces are played at the same time.
const atOnce = 8

func newSite(ctx context.Context, namespaces int) (*site, error) {
	s := &site{history: &history{}}
	var err error
	if s.env, err = apiserver.New(); err != nil {
		return nil, err
	}
	if s.config, err = s.env.Start(); err != nil {
		return nil, errors.Join(err, s.env.Stop())
	}
	s.ended = append(s.ended, s.env.Stop)
	s.config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.client, err = client.New(s.config, client.Options{Scheme: scheme}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.server = httptest.NewServer(s.history)
	s.ended = append(s.ended, func() error { s.server.CloseClientConnections(); s.server.Close(); return nil })
	for i := range namespaces {
		s.parts = append(s.parts, &part{namespace: fmt.Sprintf("load-%04d", i)})
	}
	return s, nil
}

func (s *site) close() error {
	var failures []error
	for i := len(s.ended) - 1; i >= 0; i-- {
		failures = append(failures, s.ended[i]())
	}
	return errors.Join(failures...)
}

// each plays all namespaces.
func (s *site) each(ctx context.Context, do func(context.Context, *part) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, p := range s.parts {
		group.Go(func() error {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			return do(ctx, p)
		})
	}
	return group.Wait()
}

// build makes everything that is there before the operator, and lets it run for a while.
func (s *site) build(ctx context.Context, _ options) error {
	began := time.Now()
	err := s.each(ctx, func(ctx context.Context, p *part) error {
		if err := p.create(ctx, s.client); err != nil {
			return err
		}
		for now := began.Add(-2 * time.Minute); now.Before(began); now = now.Add(30 * time.Second) {
			if err := p.sync(ctx, now, true); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.learn(ctx); err != nil {
		return err
	}
	say("made in", "%s", time.Since(began).Round(time.Second))
	s.live()
	return nil
}

func (p *part) create(ctx context.Context, c client.Client) error {
	labels := map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace, Labels: labels}}); err != nil {
		return err
	}
	p.plane = &plane.Plane{
		Client: c, Namespaces: []string{p.namespace},
		Without: plane.AllBut(plane.Lifecycle, plane.Deployments, plane.ReplicaSets, plane.Scheduler),
	}
	for i := range nodesEach {
		name := fmt.Sprintf("%s-%d", p.namespace, i)
		node, err := kubelet.NewNode(ctx, c, name, kubelet.Options{Usage: func(*corev1.Pod, string) int64 { return 200 << 20 }})
		if err != nil {
			return err
		}
		p.nodes, p.plane.Nodes = append(p.nodes, node), append(p.plane.Nodes, name)
	}
	for i := range workloadsEach {
		if err := c.Create(ctx, deployment(p.namespace, fmt.Sprintf("app-%03d", i))); err != nil {
			return err
		}
	}
	return nil
}

// sync has the nodes look once, and the control plane too where workloads have changed.
func (p *part) sync(ctx context.Context, now time.Time, changed bool) error {
	if changed {
		if err := p.plane.Sync(ctx, now); err != nil {
			return err
		}
	}
	for _, node := range p.nodes {
		if err := node.Sync(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

// live lets time go by until the end.
func (s *site) live() {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	s.ended = append(s.ended, func() error { cancel(); return <-over })
	go func() {
		for ctx.Err() == nil {
			err := s.each(ctx, func(ctx context.Context, p *part) error { return p.sync(ctx, time.Now(), false) })
			if err != nil && ctx.Err() == nil {
				over <- fmt.Errorf("playing the nodes: %w", err)
				return
			}
			time.Sleep(2 * time.Second)
		}
		over <- nil
	}()
}

// learn which pods there are: they have used the same all the time.
func (s *site) learn(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := s.client.List(ctx, pods); err != nil {
		return err
	}
	s.history.know(pods.Items)
	return nil
}

func deployment(namespace, name string) *appsv1.Deployment {
	three, labels := int32(podsEach/workloadsEach), map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas, d.Spec.Selector, d.Spec.Template.Labels = &three, &metav1.LabelSelector{MatchLabels: labels}, labels
	container := corev1.Container{Name: "app", Image: "example.org/app:1", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("512Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}}
	for i := range 10 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", i), Value: "a value of middling length"})
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{container}
	atOnce := intstr.FromString("100%")
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &atOnce}
	return d
}
