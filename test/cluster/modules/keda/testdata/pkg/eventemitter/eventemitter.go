// Package eventemitter stands in for KEDA's, which sends events to clouds too.
package eventemitter

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	eventingv1alpha1 "github.com/kedacore/keda/v2/apis/eventing/v1alpha1"
)

// EventHandler is KEDA's own.
type EventHandler interface {
	DeleteCloudEventSource(cloudEventSource eventingv1alpha1.CloudEventSourceInterface) error
	HandleCloudEventSource(ctx context.Context, cloudEventSource eventingv1alpha1.CloudEventSourceInterface) error
	Emit(object runtime.Object, namespace string, eventType string, cloudeventType eventingv1alpha1.CloudEventType, reason string, message string)
}

// EventEmitter sends events to the cluster alone.
type EventEmitter struct{ Recorder events.EventRecorder }

func (EventEmitter) DeleteCloudEventSource(eventingv1alpha1.CloudEventSourceInterface) error {
	return nil
}

func (EventEmitter) HandleCloudEventSource(context.Context, eventingv1alpha1.CloudEventSourceInterface) error {
	return nil
}

func (e EventEmitter) Emit(object runtime.Object, _, eventType string, _ eventingv1alpha1.CloudEventType, reason, message string) {
	e.Recorder.Eventf(object, nil, eventType, reason, reason, "%s", message)
}
