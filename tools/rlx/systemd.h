/* SPDX-License-Identifier: MIT */
/* The two protocols of systemd that a server needs, without its library: sd_listen_fds(3) and
 * sd_notify(3). Elsewhere they find nothing and do nothing. */
#ifndef SYSTEMD_H
#define SYSTEMD_H

/* The listening socket that the service manager hands over; 0: none. */
int systemd_socket(void);
/* Tells it a state: "READY=1", "STOPPING=1". */
void systemd_notify(const char *state);

#endif
